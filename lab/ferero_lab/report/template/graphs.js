(() => {
  const { graphs, night } = JSON.parse(document.getElementById("graphs").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isTouched = matchMedia("(pointer: coarse)").matches;
  const config = (layout) => ({
    displaylogo: false,
    responsive: true,
    plotlyServerURL: "",
    modeBarButtons: [layout.scene
      ? ["toImage", "tableRotation", "pan3d", "zoom3d", "resetCameraDefault3d"]
      : ["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  });
  const dress = (value, key) => {
    if (Array.isArray(value)) return value.map((item) => dress(item, key));
    if (value && typeof value === "object")
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, dress(item, name)]));
    return dark.matches && /color$/.test(key) && typeof value === "string" ? night[value] ?? value : value;
  };
  const place = (i) => document.getElementById("graph-" + (i + 1));
  const hidden = (i) => {
    const off = place(i).closest("section").querySelectorAll("button[aria-pressed=false]");
    return new Set([...off].map((key) => key.dataset.kind + " " + key.dataset.name));
  };
  const isShown = (trace, off) =>
    !["group", "place", "role"].some((kind) => trace.meta[kind] && off.has(kind + " " + trace.meta[kind]));
  const pen = document.createElement("canvas").getContext("2d");
  const marks = (layout) => (layout.annotations ?? []).filter((label) => label.name === "mark");
  const spread = (layout, width) => {
    if (!marks(layout).length) return;
    const [low, high] = layout.xaxis.range, filled = [-Infinity, -Infinity, -Infinity];
    marks(layout).sort((a, b) => a.x - b.x).forEach((label) => {
      pen.font = label.font.size + "px " + layout.font.family;
      const centre = (label.x - low) / (high - low) * Math.max(width - 150, 50);
      const half = pen.measureText(label.text).width / 2 + 1;
      const line = filled.findIndex((end) => end <= centre - half);
      label.visible = line >= 0;
      if (line >= 0) [label.yshift, filled[line]] = [14 * line, centre + half];
    });
  };
  const draw = (i) => {
    const off = hidden(i);
    const data = dress(graphs[i].data, "").map((trace) => ({ ...trace, visible: isShown(trace, off) }));
    const layout = dress(graphs[i].layout, "");
    if (layout.scene) {
      const { eye } = layout.scene.camera, far = Math.max(1, 500 / place(i).clientWidth);
      layout.scene.camera.eye = { x: far * eye.x, y: far * eye.y, z: far * eye.z };
    }
    spread(layout, place(i).clientWidth);
    if (isTouched) layout.dragmode = layout.scene ? "turntable" : false;
    return Plotly.react(place(i), data, layout, config(layout));
  };
  const drawAll = () => graphs.forEach((_, i) => draw(i));
  const redraw = (section) => graphs.forEach((graph, i) => {
    if (place(i).closest("section") !== section) return;
    const off = hidden(i);
    Plotly.restyle(place(i), { visible: graph.data.map((trace) => isShown(trace, off)) });
  });
  document.querySelectorAll("button.key").forEach((key) => {
    const section = key.closest("section");
    key.addEventListener("click", () => {
      key.setAttribute("aria-pressed", key.getAttribute("aria-pressed") === "false");
      redraw(section);
    });
    key.addEventListener("dblclick", () => {
      const others = [...section.querySelectorAll("button.key[data-kind=" + key.dataset.kind + "]")]
        .filter((other) => other !== key);
      const isAlone = others.every((other) => other.getAttribute("aria-pressed") === "false");
      others.forEach((other) => other.setAttribute("aria-pressed", isAlone));
      key.setAttribute("aria-pressed", true);
      redraw(section);
    });
  });
  dark.addEventListener("change", drawAll);
  addEventListener("resize", () => graphs.forEach((graph, i) => marks(graph.layout).length && draw(i)));
  drawAll();
})();
