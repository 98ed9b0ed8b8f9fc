"use strict";
(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // no tool bar: it covers the data, and one of its buttons would send the chart elsewhere
  const config = { responsive: true, displayModeBar: false, displaylogo: false, showTips: false };
  // under a finger a drag scrolls the page
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // one place knows the colours: the style sheet; figures take theirs from it
  function themed(figure, theme) {
    const layout = JSON.parse(JSON.stringify(figure.layout));
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { color: theme.ink, family: "system-ui, sans-serif", size: 13 };
    layout.hoverlabel = { bgcolor: theme.card, bordercolor: theme.line, font: { color: theme.ink } };
    layout.dragmode = touch ? false : "zoom";
    for (const axis of ["xaxis", "yaxis", "yaxis2"]) {
      if (layout[axis]) Object.assign(layout[axis], { gridcolor: theme.line, linecolor: theme.line });
    }
    const data = figure.data.map(function (trace) {
      const copy = Object.assign({}, trace);
      for (const bar of ["error_x", "error_y"]) {
        if (copy[bar]) copy[bar] = Object.assign({ color: theme.soft }, copy[bar]);
      }
      if (copy.marker && copy.marker.line) {
        copy.marker = Object.assign({}, copy.marker,
          { line: Object.assign({ color: theme.ink }, copy.marker.line) });
      }
      return copy;
    });
    return { data: data, layout: layout };
  }

  function draw(theme, width) {
    for (const [id, figure] of Object.entries(figures)) {
      const place = document.getElementById(id);
      if (!place) continue;
      const shown = themed(figure, theme);
      if (width) Object.assign(shown.layout, { width: width, autosize: false });
      Plotly.react(place, shown.data, shown.layout, config);
    }
  }

  function screen() {
    draw({ ink: color("--ink"), soft: color("--soft"), line: color("--line"), card: color("--card") });
  }

  screen();
  dark.addEventListener("change", screen);
  // paper is white and narrower than most screens
  window.addEventListener("beforeprint", function () {
    draw({ ink: "#000000", soft: "#444444", line: "#cccccc", card: "#ffffff" }, 640);
  });
  window.addEventListener("afterprint", screen);
})();
