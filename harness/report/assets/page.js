// Draws the pictures. Figures are Plotly JSON in which "$name" stands for the CSS variable --name,
// so that they follow the reader's light or dark colours.
"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  // The page alone, taken away from its folder: the tables say the same.
  const drawing = typeof Plotly !== "undefined";
  if (!drawing) for (const place of document.querySelectorAll(".plot")) {
    place.textContent = "The picture needs the script that lies beside this page in the run's folder.";
    place.classList.add("note");
  }

  const palette = () => {
    const style = getComputedStyle(document.documentElement);
    return (name) => style.getPropertyValue("--" + name).trim() || "#888";
  };

  const painted = (value, colour) => {
    if (typeof value === "string") return /^\$[a-z]/.test(value) ? colour(value.slice(1)) : value;
    if (Array.isArray(value)) return value.map((item) => painted(item, colour));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, painted(v, colour)]));
  };

  const themed = (layout, colour, narrow, entries) => {
    const themedLayout = {
      ...layout,
      font: { family: "inherit", size: narrow ? 11 : 12.5, color: colour("fg") },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: {
        bgcolor: colour("raised"),
        bordercolor: colour("line"),
        font: { color: colour("fg"), size: 12.5 },
        align: "left",
      },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour("muted"), activecolor: colour("fg") },
    };
    for (const name of Object.keys(layout)) {
      if (!/^[xy]axis/.test(name)) continue;
      themedLayout[name] = {
        gridcolor: colour("grid"),
        linecolor: colour("line"),
        tickcolor: colour("line"),
        ...layout[name],
      };
      if (narrow && name !== "xaxis" && Array.isArray(layout[name].ticktext)) {
        themedLayout[name].ticktext = layout[name].ticktext.map((text) =>
          text.length > 12 ? text.slice(0, 11) + "\u2026" : text,
        );
      }
    }
    if (narrow) {
      // The legend goes below, a line an entry at worst.
      themedLayout.margin = { ...layout.margin, l: 46, r: 4, b: 52 + 19 * entries };
      themedLayout.height = layout.height + 19 * entries;
      themedLayout.legend = { ...layout.legend, x: 0, xanchor: "left", y: 0,
        yanchor: "bottom", yref: "container", itemwidth: 30 };
      for (const [name, axis] of Object.entries(themedLayout)) {
        if (/^yaxis/.test(name)) themedLayout[name] = { ...axis, title: undefined, automargin: true };
      }
    }
    return themedLayout;
  };

  const drawOne = (element, rounds, round) => {
    const figure = rounds[round] || rounds[""] || rounds[Object.keys(rounds)[0]];
    const colour = palette();
    const narrow = element.clientWidth < 620;
    const entries = figure.data.filter((trace) => trace.showlegend).length;
    const layout = themed(painted(figure.layout, colour), colour, narrow, entries);
    element.style.minHeight = layout.height + "px";
    return Plotly.react(element, painted(figure.data, colour), layout, {
      responsive: true,
      displaylogo: false,
      displayModeBar: narrow ? false : "hover",
      // Named one by one: Plotly's own choice has a button that sends the chart to its makers.
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    });
  };

  const draw = () => {
    if (!drawing) return;
    const chosen = document.querySelector('input[name="round"]:checked');
    for (const [id, rounds] of Object.entries(figures)) {
      const element = document.getElementById(id);
      if (element) drawOne(element, rounds, chosen ? chosen.value : "");
    }
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("(max-width: 660px)").addEventListener("change", draw);
  for (const input of document.querySelectorAll('input[name="round"]')) {
    input.addEventListener("change", draw);
  }
  // A link to something inside a closed part opens it.
  const reveal = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  };
  addEventListener("hashchange", reveal);
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details")) part.open = true;
  });
  reveal();
})();
