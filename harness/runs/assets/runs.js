// Shows the rows of the table that are chosen: as a list, over time, and two side by side. What is
// chosen stands in the address (#scenario=...&arm=...), so that a view can be linked to.
"use strict";
(() => {
  const { figures, rows } = JSON.parse(document.getElementById("data").textContent);
  const byName = Object.fromEntries(figures.map((figure) => [figure.name, figure]));
  const filters = ["scenario", "arm", "system", "verdict", "profile", "host_class"];
  const PAGE = 100, MOST_SERIES = 12, FEW = 2;
  const element = (id) => document.getElementById(id);
  const state = { sort: "at", down: true, shown: PAGE, picked: [] };

  const make = (name, attributes, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) {
      if (key === "on") for (const [event, act] of Object.entries(value)) made.addEventListener(event, act);
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined));
    return made;
  };

  // -- how figures are written: three significant digits, the unit last
  const three = (value) => Number(value.toPrecision(3)).toLocaleString("en");
  const ms = (value) => {
    const size = Math.abs(value);
    if (size === 0) return "0 ms";
    if (size < 1) return three(value * 1000) + " µs";
    if (size < 999.5) return three(value) + " ms";
    return size < 119500 ? three(value / 1000) + " s" : three(value / 60000) + " min";
  };
  const written = (name, value) => {
    if (value === undefined || value === null) return "–";
    if (name.endsWith("_ms")) return ms(value);
    if (name.endsWith("_share")) return value === 0 ? "0 %" : three(value * 100) + " %";
    return value.toLocaleString("en");
  };
  const when = (at) => new Date(at).toISOString().slice(0, 16).replace("T", " ");
  const pill = (verdict) => make("span", { class: "pill " + verdict }, verdict);

  // -- what is chosen
  const inAddress = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    return Object.fromEntries([...filters, "search", "figure"].map((name) => [name, asked.get(name) || ""]));
  };
  const choose = (changes) => {
    state.asked = { ...state.asked, ...changes };
    state.shown = PAGE;
    const set = Object.entries(state.asked).filter(([, value]) => value);
    history.replaceState(null, "", "#" + new URLSearchParams(set));
    show();
  };
  const fits = (row, asked, without) =>
    filters.every((name) => name === without || !asked[name] || row[name] === asked[name]) &&
    (!asked.search || [row.seed, row.commit, row.path].some((text) => text.includes(asked.search)));

  const fill = (asked) => {
    for (const name of filters) {
      const select = element(name);
      const values = new Set(rows.filter((row) => fits(row, asked, name)).map((row) => row[name]));
      if (asked[name]) values.add(asked[name]);
      select.replaceChildren(
        make("option", { value: "" }, "all"),
        ...[...values].sort().map((value) => make("option", { value, selected: value === asked[name] }, value)),
      );
      select.value = asked[name];
    }
    if (element("search").value !== asked.search) element("search").value = asked.search;
    element("figure").value = asked.figure;
  };

  // -- the table
  const columns = [
    { name: "at", says: "began (UTC)", cell: (row) => when(row.at) },
    { name: "scenario", says: "scenario" },
    { name: "arm", says: "arm" },
    { name: "verdict", says: "verdict", cell: (row) => pill(row.verdict) },
    { name: "profile", says: "profile" },
    { name: "seed", says: "seed" },
    ...["control_p99_ms", "staleness_p99_ms", "avoidable_loss", "unavailable_p99_ms"].map((name) => ({
      name, figure: true, says: { control_p99_ms: "control p99", staleness_p99_ms: "stale p99",
        avoidable_loss: "lost", unavailable_p99_ms: "unavailable p99" }[name],
      cell: (row) => written(name, row.figures[name]),
    })),
    { name: "took", says: "took", figure: true, cell: (row) => (row.took === null ? "–" : ms(row.took * 1000)) },
    { name: "commit", says: "commit", cell: (row) => row.commit.slice(0, 10) + (row.commit.endsWith("+") ? "+" : "") },
    { name: "system", says: "system" },
  ];
  const few = (said) => [
    make("div", {}, said.slice(0, FEW).join(", ")),
    said.length > FEW ? make("details", {}, make("summary", {}, `${said.length - FEW} more`), said.slice(FEW).join(", ")) : null,
  ];
  const valueOf = (row, name) => (name in row ? row[name] : row.figures[name]);
  const sorted = (found) => {
    const sign = state.down ? -1 : 1;
    return [...found].sort((a, b) => {
      const [left, right] = [valueOf(a, state.sort), valueOf(b, state.sort)];
      if (left === right) return b.at - a.at;
      if (left === undefined || left === null) return 1;
      if (right === undefined || right === null) return -1;
      return (left < right ? -1 : 1) * sign;
    });
  };
  const table = (found) => {
    const heads = columns.map((column) => make("th", {
      scope: "col", class: column.figure ? "num" : null,
      "aria-sort": state.sort === column.name ? (state.down ? "descending" : "ascending") : null,
    }, make("button", { type: "button", on: { click: () => {
      state.down = state.sort === column.name ? !state.down : true;
      state.sort = column.name;
      show();
      document.querySelectorAll("#table th button")[columns.indexOf(column)].focus();
    } } }, column.says)));
    const lines = sorted(found).slice(0, state.shown).map((row) => make("tr", {},
      make("td", {}, make("input", { type: "checkbox", "aria-label": "compare " + row.path + ", " + row.arm,
        on: { change: (event) => pick(row, event.target) } })),
      make("td", {}, row.report ? make("a", { href: row.report }, "report") : "–"),
      ...columns.map((column) => make("td", { class: column.figure ? "num" : null },
        column.cell ? column.cell(row) : row[column.name])),
      make("td", { class: "says small" }, ...few(row.broken), ...few(row.mutants.map((name) => "planted: " + name))),
    ));
    for (const [index, row] of sorted(found).slice(0, state.shown).entries()) {
      lines[index].querySelector("input").checked = state.picked.includes(row);
    }
    return make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "compare"),
      make("th", { scope: "col" }, "report"), ...heads, make("th", { scope: "col" }, "broken"))),
      make("tbody", {}, ...lines));
  };

  // -- two side by side
  const pick = (row, box) => {
    state.picked = box.checked ? [...state.picked, row].slice(-2) : state.picked.filter((one) => one !== row);
    const place = [...document.querySelectorAll("#table tbody input")].indexOf(box);
    show(); // a third unticks the first; the table is a new one then
    document.querySelectorAll("#table tbody input")[place].focus();
    compare();
  };
  const compare = () => {
    const [left, right] = state.picked;
    if (!right) {
      element("comparison").replaceChildren(make("p", { class: "note" }, "Tick two runs in the table."));
      return;
    }
    const facts = [["began (UTC)", (row) => when(row.at)], ["scenario", (row) => row.scenario], ["arm", (row) => row.arm],
      ["verdict", (row) => pill(row.verdict)], ["system", (row) => row.system], ["profile", (row) => row.profile],
      ["hosts", (row) => row.host_class], ["seed", (row) => row.seed], ["commit", (row) => row.commit]];
    const lines = facts.map(([says, cell]) => make("tr", {}, make("th", { scope: "row" }, says),
      make("td", {}, cell(left)), make("td", {}, cell(right)), make("td")));
    const checks = new Set([...Object.keys(left.checks), ...Object.keys(right.checks)]);
    for (const check of checks) {
      const [a, b] = [left.checks[check], right.checks[check]];
      if (a === b && a === "valid") continue;
      lines.push(make("tr", {}, make("th", { scope: "row" }, "check " + check),
        make("td", {}, a ? pill(a) : "–"), make("td", {}, b ? pill(b) : "–"), make("td")));
    }
    for (const { name, says } of figures) {
      const [a, b] = [left.figures[name], right.figures[name]];
      if (a === undefined && b === undefined) continue;
      const ratio = a && b !== undefined ? (b / a).toFixed(2) + "×" : "";
      lines.push(make("tr", {}, make("th", { scope: "row" }, says), make("td", { class: "num" }, written(name, a)),
        make("td", { class: "num" }, written(name, b)), make("td", { class: "num" }, ratio)));
    }
    const head = (row) => (row.report ? make("a", { href: row.report }, row.run) : row.run);
    element("comparison").replaceChildren(make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "comparison" },
      make("table", {}, make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "what"), make("th", { scope: "col" }, head(left)),
        make("th", { scope: "col" }, head(right)), make("th", { scope: "col", class: "num" }, "ratio"))), make("tbody", {}, ...lines))));
  };

  // -- over time
  const series = (found, name) => {
    const lines = new Map();
    for (const row of found) {
      if (row.figures[name] === undefined) continue;
      const key = [row.scenario, row.arm, row.profile, row.host_class, row.mutants.join("+")].join(" · ").replace(/ · $/, "");
      if (!lines.has(key)) lines.set(key, []);
      lines.get(key).push(row);
    }
    for (const line of lines.values()) line.sort((a, b) => a.at - b.at);
    return [...lines].sort(([, a], [, b]) => b.length - a.length);
  };
  const usual = (found) => {
    const counts = figures.filter((f) => f.watched).map((f) => [f.name, found.filter((row) => f.name in row.figures).length]);
    counts.sort(([, a], [, b]) => b - a);
    return counts.length && counts[0][1] ? counts[0][0] : "control_p99_ms";
  };
  const escape = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);
  const draw = (found, name) => {
    const all = series(found, name), lines = all.slice(0, MOST_SERIES), place = element("plot-trend");
    element("figure").value = name;
    element("plot-says").textContent = !all.length ? "Nothing of it was measured in these runs."
      : "A point opens its report. " + (all.length > lines.length ? `${lines.length} of ${all.length} series are drawn: choose fewer.` : "")
        + (byName[name].more ? "" : " Less is better.") + " A cross is a run that was not valid.";
    if (typeof Plotly === "undefined") {
      place.textContent = "The picture needs the script in assets/, which lies beside this page in its store.";
      place.classList.add("note");
      return;
    }
    const style = getComputedStyle(document.documentElement);
    const colour = (variable) => style.getPropertyValue("--" + variable).trim();
    const narrow = place.clientWidth < 620;
    const log = name.endsWith("_ms") && lines.every(([, line]) => line.every((row) => row.figures[name] > 0));
    const data = lines.map(([key, line], index) => ({
      type: "scatter", mode: "lines+markers", name: escape(key.length > 46 && narrow ? key.slice(0, 45) + "…" : key),
      x: line.map((row) => new Date(row.at)), y: line.map((row) => row.figures[name]),
      customdata: line.map((row) => row.report), hoverinfo: "text",
      text: line.map((row) => `${escape(key)}<br>${when(row.at)}, seed ${row.seed}: ${written(name, row.figures[name])}, ${row.verdict}`),
      line: { width: 1.5, color: colour("series-" + (index % 6)), dash: index < 6 ? "solid" : "dot" },
      marker: { size: 8, symbol: line.map((row) => (row.verdict === "valid" ? "circle" : "x")),
        color: line.map((row) => (row.verdict === "valid" ? colour("series-" + (index % 6)) : colour("bad"))) },
    }));
    const values = lines.flatMap(([, line]) => line.map((row) => row.figures[name]));
    const ticks = [];
    if (log && values.length) {
      const steps = Math.log10(Math.max(...values) / Math.min(...values)) > 2 ? [1] : [1, 2, 5];
      for (let power = -4; power < 8; power++) ticks.push(...steps.map((step) => step * 10 ** power));
    }
    const times = lines.flatMap(([, line]) => line.map((row) => row.at));
    const [first, last] = [Math.min(...times), Math.max(...times)];
    const around = Math.max(0.04 * (last - first), 1_800_000); // of one run alone: half an hour, and no parts of a second
    const axis = { gridcolor: colour("grid"), linecolor: colour("line"), zeroline: false };
    const height = 340 + 20 * lines.length;
    place.style.height = height + "px"; // which it is given when the window changes
    Plotly.react(place, data, {
      height, margin: { t: 10, r: 10, l: 60, b: 40 + 20 * lines.length }, hovermode: "closest",
      font: { family: "inherit", size: narrow ? 11 : 12.5, color: colour("fg") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: true,
      legend: { orientation: "v", x: 0, xanchor: "left", y: 0, yanchor: "bottom", yref: "container" },
      hoverlabel: { bgcolor: colour("raised"), bordercolor: colour("line"), font: { color: colour("fg") }, align: "left" },
      xaxis: { ...axis, type: "date", tickangle: 0, ...(narrow ? { nticks: 4 } : {}),
        ...(times.length ? { range: [new Date(first - around), new Date(last + around)] } : {}) },
      yaxis: { ...axis, type: log ? "log" : "linear", rangemode: log ? "normal" : "tozero",
        ...(log ? { tickvals: ticks, ticktext: ticks.map(ms) } : {}),
        title: narrow || log ? undefined : { text: name.endsWith("_ms") ? "ms" : name.endsWith("_share") ? "share" : "records" } },
    }, { responsive: true, displaylogo: false, displayModeBar: false });
    place.removeAllListeners("plotly_click");
    place.on("plotly_click", (event) => {
      const report = event.points[0] && event.points[0].customdata;
      if (report) location.href = report;
    });
  };

  // -- all together
  const show = () => {
    const asked = state.asked;
    fill(asked);
    const found = rows.filter((row) => fits(row, asked));
    const runs = new Set(found.map((row) => row.path)).size;
    element("count").textContent = `${runs} of ${new Set(rows.map((row) => row.path)).size} runs, ${found.length} rows`;
    const old = element("table").scrollLeft;
    element("table").replaceChildren(table(found));
    element("table").scrollLeft = old;
    element("more").hidden = found.length <= state.shown;
    draw(found, asked.figure in byName ? asked.figure : usual(found));
  };
  for (const name of [...filters, "figure"]) {
    element(name).addEventListener("change", (event) => choose({ [name]: event.target.value }));
  }
  element("search").addEventListener("input", (event) => choose({ search: event.target.value.trim() }));
  element("filters").addEventListener("submit", (event) => event.preventDefault());
  element("clear").addEventListener("click", () => choose(Object.fromEntries([...filters, "search"].map((name) => [name, ""]))));
  element("more").addEventListener("click", () => { state.shown += PAGE; show(); });
  addEventListener("hashchange", () => {
    if (element(location.hash.slice(1))) return; // a jump inside the page
    state.asked = inAddress();
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  matchMedia("(max-width: 660px)").addEventListener("change", show);
  state.asked = inAddress();
  compare();
  show();
})();
