"""What a stepper is made of: halves of a batch, looks beside the training, slopes, the optimizer's step, its memory."""
