"""A scikit-learn estimator refitted with sample weights: at most 0.05 of log-loss on malignant tumours.

The estimator minimises one weighted sum and knows no constraints. Each round ferero sees the losses of the two classes
and says what one example of each class is to weigh in the next fit.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ferero

x, y = load_breast_cancer(return_X_y=True)
classes = {"malignant": y == 0, "benign": y == 1}


def log_losses(model):
    likelihood = model.predict_proba(x)[np.arange(len(y)), y]
    return {name: -np.log(likelihood[rows]).mean() for name, rows in classes.items()}


f = ferero.objectives(*classes)
preference = ferero.Preference(f, [f.malignant <= 0.05], minimize=f.benign)
# A refit answers the weights at once, where a step of training answers a little: a low gain, and a fast integral.
controller = ferero.Controller(preference, ferero.FereroPI(proportional=1.0, steady=1.0, integral=0.5))
weights = dict.fromkeys(classes, 1.0)
for round_ in range(100):
    sample_weight = sum(weights[name] * rows / rows.mean() for name, rows in classes.items())
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1))
    model.fit(x, y, logisticregression__sample_weight=sample_weight / sample_weight.mean())
    found = log_losses(model)
    if round_ == 0:
        print("equal weights:", {name: round(float(value), 4) for name, value in found.items()})
    weights = controller.step(found)

print(controller.report())
print("steered:", {name: round(float(value), 4) for name, value in found.items()})
