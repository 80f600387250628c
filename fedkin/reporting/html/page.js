"use strict";
(() => {
  const report = JSON.parse(document.getElementById("contents").textContent);
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const narrow = matchMedia("(max-width: 40rem)");
  const coarse = matchMedia("(pointer: coarse)");
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "3px,2px"];
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star", "pentagon", "hexagon"];
  const state = { setting: 0, cell: 0, colour: "group" };
  const drawn = new Set();

  // Plotly reads a little HTML in its texts; names are shown as they are.
  const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const percent = (value, digits = 1) => (value === null || value === undefined ? "-" : (100 * value).toFixed(digits) + "%");
  const grouped = (number) => Number(number).toLocaleString("en");
  const cell = () => report.cells[state.cell];
  const portrait = () => report.portraits[cell().portrait];

  function bytes(count) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (count < 1000) return (unit === "B" ? count : count.toFixed(1)) + " " + unit;
      count /= 1000;
    }
    return count.toFixed(1) + " TB";
  }

  function theme() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { ink: read("--ink"), soft: read("--soft"), line: read("--line"), card: read("--card") };
  }

  // Clusters up to the tenth have the colour of their number; of more, the largest have one each.
  const hue = (cluster) => (cell().shown.every((k) => k < report.colours.length) ? cluster : cell().shown.indexOf(cluster));

  function colour(index) {
    if (index < 0) return dark.matches ? "#7d8894" : "#9aa3ad"; // no cluster, others
    const one = report.colours[index % report.colours.length];
    if (one === "#000000") return theme().ink;
    const lighter = { "#0072B2": "#3d9bd6", "#882255": "#d06a9c", "#AA4499": "#cf7cc3" };
    return (dark.matches && lighter[one]) || one;
  }

  function faded(hex, opacity) {
    const value = parseInt(hex.slice(1), 16);
    return `rgba(${value >> 16},${(value >> 8) & 255},${value & 255},${opacity})`;
  }

  // ---- what every plot has in common

  function layout(extra) {
    const t = theme();
    const axis = { gridcolor: t.line, linecolor: t.soft, zeroline: false, ticks: "outside", tickcolor: t.line, automargin: true };
    const made = {
      font: { color: t.ink, size: 12, family: "system-ui, sans-serif" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 48, r: 12, t: 12, b: 44 }, hovermode: "closest",
      dragmode: coarse.matches ? false : "zoom",
      hoverlabel: { bgcolor: t.card, bordercolor: t.soft, font: { color: t.ink } },
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, font: { color: t.ink } },
      ...extra,
    };
    for (const name of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) if (made[name] || name.length === 5) made[name] = { ...axis, ...made[name] };
    return made;
  }

  const rounds = (last, extra) => ({ title: { text: "communication round" }, rangemode: "tozero", showgrid: false, ...(last <= 10 ? { dtick: 1 } : {}), ...extra });
  const shares = { tickformat: ".0%", range: [0, 1.02], title: { text: "" } };

  function uprights(marks) {
    const t = theme(), shapes = [], annotations = [];
    for (const [what, dash, told, y] of [["shift", "solid", "data moved", 1], ["placed", "dot", "newcomers placed", 0.93]]) {
      (marks[what] || []).forEach((round, place) => {
        shapes.push({ type: "line", x0: round, x1: round, yref: "paper", y0: 0, y1: 1, line: { color: t.soft, width: 1, dash } });
        if (!place) annotations.push({ x: round, y, yref: "paper", xanchor: "left", yanchor: "top", showarrow: false, text: told, font: { size: 11, color: t.soft } });
      });
    }
    return { shapes, annotations };
  }

  const toldMarks = (marks) =>
    [["shift", "Data moved in rounds "], ["placed", "Newcomers were placed in rounds "]]
      .filter(([what]) => (marks[what] || []).length)
      .map(([what, told]) => " " + told + marks[what].slice(0, 12).join(", ") + (marks[what].length > 12 ? ", ..." : "") + ".")
      .join("");

  function last(values) {
    for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i];
    return null;
  }

  function some(count, limit = 12) { // evenly spread places of a list
    if (count <= limit) return Array.from({ length: count }, (_, i) => i);
    return [...new Set(Array.from({ length: limit }, (_, i) => Math.round((i * (count - 1)) / (limit - 1))))];
  }

  // ---- the plots: traces, layout, a sentence for who cannot see it, and a short table

  const plots = {
    accuracy() {
      const view = report.views[state.setting], traces = [];
      view.lines.forEach((line, i) => {
        const shade = colour(i), dash = DASHES[i % DASHES.length], name = plain(line.method);
        const draw = (y, extra) => traces.push({ x: line.rounds, y, mode: "lines", name, legendgroup: line.method, showlegend: false, hoverinfo: "skip", ...extra });
        for (const kind of ["accuracy", "worst"]) {
          if (line[kind + "_low"].some((v) => v !== null)) {
            const known = line.rounds.map((_, k) => k).filter((k) => line[kind + "_low"][k] !== null);
            const back = [...known].reverse();
            traces.push({
              x: [...known, ...back].map((k) => line.rounds[k]), fill: "toself", mode: "lines", line: { width: 0 },
              y: [...known.map((k) => line[kind + "_low"][k]), ...back.map((k) => line[kind + "_high"][k])],
              fillcolor: faded(shade, kind === "accuracy" ? 0.2 : 0.1), legendgroup: line.method, showlegend: false, hoverinfo: "skip",
            });
          }
        }
        if (line.pale) draw(line.pale, { line: { color: shade, width: 2 }, opacity: 0.4 });
        draw(line.worst, { line: { color: shade, width: 1.1, dash }, hoverinfo: "all", hovertemplate: `${name}, worst decile: %{y:.1%}<extra>round %{x}</extra>` });
        draw(line.accuracy, { line: { color: shade, width: 2.6, dash }, showlegend: true, hoverinfo: "all", hovertemplate: `${name}: %{y:.1%}<extra>round %{x}</extra>` });
      });
      const told = view.lines.map((line) => `${line.method} ends at ${percent(last(line.accuracy) ?? last(line.pale || []))}, its worst decile at ${percent(last(line.worst))}`);
      const longest = view.lines.reduce((a, b) => (b.rounds.length > a.rounds.length ? b : a));
      const at = (line, kind, k) => percent(line[kind][k] ?? (kind === "accuracy" && line.pale ? line.pale[k] : null));
      return {
        traces, layout: layout({ xaxis: rounds(last(longest.rounds)), yaxis: shares, ...uprights(view.marks) }),
        label: `Test accuracy over the rounds. ${told.join("; ")}.${toldMarks(view.marks)}`,
        note: "Strong: all clients together. Thin: the worst-served tenth of them." + (view.lines[0].seeds > 2 ? " Bands: 95% intervals over the seeds." : "") + (view.lines.some((l) => l.pale) ? " Pale: some clients have no cluster yet." : ""),
        heads: ["round", ...view.lines.flatMap((l) => [l.method, l.method + ", worst decile"])],
        rows: some(longest.rounds.length).map((k) => [longest.rounds[k], ...view.lines.flatMap((l) => [at(l, "accuracy", k), at(l, "worst", k)])]),
      };
    },

    clusters() {
      const { rounds: x, lines, left_out: left } = cell().clusters;
      if (!lines.length) return { empty: "No accuracy by cluster was measured." };
      const traces = lines.map((line) => ({
        x, y: line.accuracy, mode: "lines", name: `cluster ${line.cluster}`,
        line: { color: colour(hue(line.cluster)), dash: DASHES[Math.max(0, hue(line.cluster)) % DASHES.length], width: 2 },
        hovertemplate: `cluster ${line.cluster}: %{y:.1%}<extra>round %{x}</extra>`,
      }));
      const told = lines.map((line) => `cluster ${line.cluster} ends at ${percent(last(line.accuracy))}`);
      return {
        traces, layout: layout({ xaxis: rounds(last(x)), yaxis: shares, showlegend: true, ...uprights(cell().marks) }),
        label: `Test accuracy of each cluster's clients. ${told.join("; ")}.${toldMarks(cell().marks)}`,
        note: left > 0 ? `The ${lines.length} largest clusters; ${left} others are left out.` : "All clients of a cluster together.",
        heads: ["round", ...lines.map((l) => `cluster ${l.cluster}`)],
        rows: some(x.length).map((k) => [x[k], ...lines.map((l) => percent(l.accuracy[k]))]),
      };
    },

    ribbon() {
      const r = cell().ribbon;
      if (!r) return { empty: "Who moved when is not known: this run kept no moves." };
      const traces = [], moved = new Map();
      r.bands.forEach((band, b) => {
        for (const stays of [true, false]) {
          const x = [], y = [];
          const add = (corners) => { for (const [cx, cy] of [...corners, corners[0]]) { x.push(cx); y.push(cy); } x.push(null); y.push(null); };
          if (stays) r.rounds.forEach((round, c) => {
            const low = r.base[c][b], high = low + r.sizes[c][b];
            if (r.sizes[c][b] && r.ends[c] > round) add([[round, low], [r.ends[c], low], [r.ends[c], high], [round, high]]);
          });
          for (const [column, source, target, count, corners] of r.flows) {
            if (source !== b || (source === target) !== stays) continue;
            add(corners);
            if (!stays) moved.set(column, [...(moved.get(column) || []), [count, source, target]]);
          }
          if (x.length) traces.push({
            x, y, fill: "toself", mode: "lines", line: { width: stays ? 0 : 0.5, color: colour(hue(band.cluster)) }, hoverinfo: "skip",
            fillcolor: faded(rgb(colour(hue(band.cluster))), stays ? 0.85 : 0.5), name: band.name, legendgroup: band.name, showlegend: stays,
          });
        }
      });
      const spots = { x: [], y: [], text: [] };
      r.rounds.forEach((round, c) => r.bands.forEach((band, b) => {
        if (!r.sizes[c][b]) return;
        const came = (moved.get(c - 1) || []).filter(([, , target]) => target === b);
        spots.x.push(round); spots.y.push(r.base[c][b] + r.sizes[c][b] / 2);
        spots.text.push(`${band.name}, round ${round}: ${grouped(r.sizes[c][b])} clients` + came.map(([n, s]) => `<br>${grouped(n)} from ${r.bands[s].name}${r.left_out ? ` since round ${r.rounds[c - 1]}` : ""}`).join(""));
      }));
      traces.push({ ...spots, mode: "markers", marker: { size: 12, opacity: 0 }, hovertemplate: "%{text}<extra></extra>", showlegend: false });
      const net = r.left_out ? ` Of the rounds with moves, ${r.left_out === 1 ? "1 is" : grouped(r.left_out) + " are"} not drawn: between two columns the net flow is seen, not who went and came back.` : "";
      const all = cell().moved, times = (n, what) => `${grouped(n)} ${what}${n === 1 ? "" : "s"}`;
      return {
        traces,
        layout: layout({ xaxis: rounds(r.last, { range: [0, r.last || 1] }), yaxis: { title: { text: "clients" }, showticklabels: false, showgrid: false, ticks: "" }, ...uprights(cell().marks) }),
        label: `Clusters as bands over the rounds; ${all.times ? `clients changed cluster ${times(all.times, "time")}, in ${times(all.rounds, "round")}; the most in round ${all.peak}` : "nobody ever changed cluster"}.${net}` + toldMarks(cell().marks),
        note: "A band is as high as its cluster has clients; paler are those that go over to another. " + (all.times ? `Clients changed cluster ${times(all.times, "time")}.` : "Nobody ever changed cluster.") + net + (all.rounds > all.most.length ? ` The table has the ${all.most.length} rounds with the most changes.` : "") + (cell().peers ? " Communities of peers have no lasting names: a change of number may be nothing else." : ""),
        heads: ["round", "clients that changed cluster", "from and to"],
        rows: all.most.map(([round, count, list]) => [round, count, list.map(([n, from, to]) => `${n}: ${from} to ${to}`).join("; ")]),
      };
    },

    map() {
      const p = portrait();
      if (!p) return { empty: missing };
      const truth = state.colour === "truth" && p.truth;
      const what = truth ? "true cluster" : "cluster", OTHERS = -2, own = cell().shown;
      const kinds = truth ? p.truth.map((k) => (k < 10 ? k : OTHERS)) : cell().group.map((k) => (k < 0 || own.includes(k) ? k : OTHERS));
      const place = (kind) => (truth || kind < 0 ? kind : hue(kind));
      const traces = [...new Set(kinds)].sort((a, b) => a - b).map((kind) => {
        const who = kinds.map((_, i) => i).filter((i) => kinds[i] === kind);
        const name = kind === OTHERS ? "other clusters" : kind < 0 ? "no cluster" : `${what} ${kind}`;
        return {
          x: who.map((i) => p.x[i]), y: who.map((i) => p.y[i]), mode: "markers", name,
          marker: { color: colour(place(kind)), symbol: SYMBOLS[Math.max(0, place(kind)) % SYMBOLS.length] + (kind < 0 ? "-open" : ""), size: kind < 0 ? 7 : 9, opacity: 0.85, line: { width: kind < 0 ? 1.2 : 0.5, color: kind < 0 ? colour(-1) : theme().card } },
          text: who.map((i) => `client ${p.ids[i]}` + (p.names ? ` (${plain(p.names[i])})` : "") + `<br>cluster ${cell().group[i] < 0 ? "-" : cell().group[i]}` + (p.truth ? `, truth ${p.truth[i]}` : "")),
          hovertemplate: "%{text}<extra></extra>",
        };
      });
      return {
        traces,
        layout: layout({ showlegend: true, xaxis: { title: { text: `first direction (${percent(p.explained[0], 0)} of the variance)` }, showticklabels: false, ticks: "" }, yaxis: { title: { text: `second (${percent(p.explained[1], 0)})` }, showticklabels: false, ticks: "" } }),
        label: `Map of ${p.ids.length} clients by the first two principal directions of their updates, coloured by ${what}: ${traces.map((t) => `${t.x.length} in ${t.name}`).join(", ")}.`,
        note: `Each of ${grouped(p.ids.length)} clients${p.clients > p.ids.length ? ` (of ${grouped(p.clients)}, evenly spread)` : ""} trained one local epoch from one new model; near each other are those that pulled it the same way. ${p.remark}`,
        heads: ["client", ...(p.names ? ["name"] : []), "cluster", ...(p.truth ? ["truth"] : []), "first", "second"],
        rows: some(p.ids.length, 20).map((i) => [p.ids[i], ...(p.names ? [p.names[i]] : []), cell().group[i], ...(p.truth ? [p.truth[i]] : []), p.x[i].toFixed(2), p.y[i].toFixed(2)]),
      };
    },

    similarity() {
      const p = portrait();
      if (!p) return { empty: missing };
      const { kind, order, lines } = cell().tree, n = order.length, raw = atob(p.similarity), t = theme();
      const [low, high] = p.range, value = (i, j) => low + ((high - low) * raw.charCodeAt(order[i] * n + order[j])) / 255;
      const z = order.map((_, i) => order.map((_, j) => Math.round(1000 * value(i, j)) / 1000));
      const who = order.map((i) => p.ids[i]), kinds = order.map((i) => cell().group[i]);
      const edges = [0]; for (let i = 1; i <= n; i++) if (i === n || kinds[i] !== kinds[i - 1]) edges.push(i);
      const blocks = edges.slice(1).map((end, k) => ({ from: edges[k], end, kind: kinds[edges[k]] }));
      const within = [], across = [];
      for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) (kinds[i] === kinds[j] ? within : across).push(z[i][j]);
      const spread = [...within, ...across].sort((a, b) => a - b), mean = (a) => (a.length ? (a.reduce((x, y) => x + y, 0) / a.length).toFixed(2) : "-");
      const tx = [], ty = [];
      for (const line of lines) { for (const [h, place] of line) { tx.push(h); ty.push(place); } tx.push(null); ty.push(null); }
      const split = kind === "splits";
      const rule = (at) => [
        { type: "line", xref: "x", yref: "y", x0: -0.5, x1: n - 0.5, y0: at - 0.5, y1: at - 0.5, line: { color: t.card, width: 1.5 } },
        { type: "line", xref: "x", yref: "y", y0: -0.5, y1: n - 0.5, x0: at - 0.5, x1: at - 0.5, line: { color: t.card, width: 1.5 } },
      ];
      return {
        traces: [
          { type: "heatmap", z, zmin: spread[Math.floor(spread.length * 0.02)] ?? low, zmax: spread[Math.floor(spread.length * 0.98)] ?? high, colorscale: "Cividis", customdata: order.map((_, i) => order.map((_, j) => [who[i], who[j]])), hovertemplate: "clients %{customdata[0]} and %{customdata[1]}: cosine %{z}<extra></extra>", colorbar: { thickness: 10, len: 0.9, title: { text: "cosine", side: "right" }, outlinewidth: 0 } },
          { x: tx, y: ty, xaxis: "x2", mode: "lines", line: { color: t.ink, width: split ? 2 : 1 }, hoverinfo: "skip", showlegend: false },
        ],
        layout: layout({
          margin: { l: 12, r: 12, t: 12, b: 44 }, shapes: blocks.length > 12 ? [] : edges.slice(1, -1).flatMap(rule),
          xaxis: { domain: [0.34, 1], range: [-0.5, n - 0.5], showticklabels: false, ticks: "", showgrid: false },
          yaxis: { range: [n - 0.5, -0.5], showgrid: false, ticks: "", anchor: "x", tickvals: blocks.length <= 12 ? blocks.map((b) => (b.from + b.end - 1) / 2) : [], ticktext: blocks.map((b) => (b.kind < 0 ? "none" : String(b.kind))) },
          xaxis2: { domain: [0, split ? 0.24 : 0.26], showgrid: false, anchor: "y", nticks: 4, title: { text: split ? "round" : "dissimilarity" }, autorange: split ? true : "reversed" },
        }),
        label: `Cosine similarity of ${n} clients' updates, in the order of their clusters: ${mean(within)} on average within clusters, ${mean(across)} across them. Beside it ${split ? "the tree of the cuts that the method made" : "a dendrogram"}.`,
        note: (split ? "Clients by cluster. Left: which cluster was cut in which round. " : "Clients by cluster. Left: average linkage of (1 - cosine) / 2, inside the clusters first and then of the clusters. ") + p.remark,
        heads: ["cluster", ...blocks.slice(0, 12).map((b) => (b.kind < 0 ? "none" : b.kind))],
        rows: blocks.slice(0, 12).map((a) => [a.kind < 0 ? "none" : `cluster ${a.kind}`, ...blocks.slice(0, 12).map((b) => {
          const found = [];
          for (let i = a.from; i < a.end; i++) for (let j = b.from; j < b.end; j++) if (i !== j) found.push(z[i][j]);
          return mean(found);
        })]),
      };
    },

    labels() {
      const l = cell().labels;
      if (!l) return { empty: missing };
      const total = l.counts.map((row) => row.reduce((a, b) => a + b, 0) || 1);
      const z = l.counts.map((row, k) => row.map((count) => count / total[k]));
      const few = l.classes.length <= 12 && l.names.length <= 12 && !narrow.matches;
      return {
        height: `max(14rem, ${1.7 * l.names.length + 5}rem)`,
        traces: [{ type: "heatmap", z, x: l.classes.map(String), y: l.names.map((name, k) => `${name} (${grouped(l.clients[k])})`), colorscale: "Cividis", zmin: 0, zmax: Math.max(0.01, ...z.flat()), customdata: l.counts, hovertemplate: "%{y}<br>class %{x}: %{z:.1%}, %{customdata:,} samples<extra></extra>", texttemplate: few ? "%{z:.0%}" : "", xgap: 1, ygap: 1, colorbar: { thickness: 10, tickformat: ".0%", outlinewidth: 0 } }],
        layout: layout({ xaxis: { type: "category", title: { text: "class" }, showgrid: false, ticks: "" }, yaxis: { autorange: "reversed", showgrid: false, ticks: "" } }),
        label: `Labels by cluster, as shares of the training samples of its clients. ${l.names.slice(0, 12).map((name, k) => { const top = z[k].map((v, c) => [v, l.classes[c]]).sort((a, b) => b[0] - a[0]).slice(0, 2); return `${name}: ${top.map(([v, c]) => `${percent(v, 0)} class ${c}`).join(", ")}`; }).join("; ")}.`,
        note: "Share of a cluster's training samples that is of each class; in brackets its clients." + (l.left_out ? ` The ${l.left_out} rarest classes are left out.` : "") + (l.rows_left_out ? ` The ${l.rows_left_out} smallest clusters are left out.` : "") + (portrait().remark ? " " + portrait().remark : ""),
        heads: ["cluster", "clients", ...l.classes.slice(0, 12).map((c) => `class ${c}`)],
        rows: l.names.slice(0, 20).map((name, k) => [name, l.clients[k], ...z[k].slice(0, 12).map((v) => percent(v, 0))]),
      };
    },

    bytes() {
      const { rows } = cell().bytes;
      if (!rows.length) return { empty: "No bytes were counted." };
      const name = (row) => plain(row.verb.replace(/^(scoring|servers)\./, "")) + (row.own ? "" : row.verb.startsWith("scoring.") ? " (measurement)" : " (between servers)");
      const bar = (side, index, shape) => ({
        type: "bar", orientation: "h", name: side === "down" ? "down to clients" : "up from clients", y: rows.map(name), x: rows.map((row) => row[side]),
        marker: { color: colour(index), opacity: rows.map((row) => (row.own ? 1 : 0.55)), pattern: { shape, fillmode: "overlay", fgcolor: theme().card, solidity: 0.25 } },
        text: rows.map((row) => bytes(row[side])), textposition: "outside", textfont: { color: theme().ink }, hovertemplate: "%{y}: %{text}<extra></extra>",
      });
      return {
        traces: [bar("down", 0, ""), bar("up", 1, "/")],
        layout: layout({ barmode: "group", xaxis: { title: { text: "bytes" }, tickformat: ".2s", ticksuffix: "B", nticks: narrow.matches ? 3 : 5, tickangle: 0, range: [0, (narrow.matches ? 1.6 : 1.25) * Math.max(1, ...rows.flatMap((row) => [row.down, row.up]))] }, yaxis: { autorange: "reversed", showgrid: false, ticks: "" } }),
        label: `Bytes sent by verb. ${rows.map((row) => `${name(row)}: ${bytes(row.down)} down, ${bytes(row.up)} up`).join("; ")}.`,
        note: "What went over the network in the whole run. Measurement (pale) is the experimenter's, and no part of the method's bytes.",
        heads: ["verb", "down", "up"], rows: rows.map((row) => [name(row), bytes(row.down), bytes(row.up)]),
      };
    },
  };
  const missing = "This picture needs this run's data, which could not be had; see the notes at the top.";

  function rgb(text) { // a colour of the theme may be written in three digits
    return text.length === 4 ? "#" + [...text.slice(1)].map((c) => c + c).join("") : text;
  }

  // ---- drawing

  function table(heads, rows) {
    const made = document.createElement("table"), head = made.createTHead().insertRow();
    for (const text of heads) { const th = document.createElement("th"); th.scope = "col"; th.textContent = text; head.append(th); }
    const body = made.createTBody();
    for (const row of rows) { const tr = body.insertRow(); for (const text of row) tr.insertCell().textContent = text; }
    return made;
  }

  function draw(name) {
    const figure = byId("f-" + name), place = byId(name), made = plots[name]();
    drawn.add(name);
    figure.querySelector(".note").textContent = made.empty || made.note || "";
    place.classList.toggle("none", Boolean(made.empty));
    figure.querySelector("details").hidden = Boolean(made.empty);
    figure.querySelectorAll("button").forEach((one) => { one.hidden = Boolean(made.empty); });
    if (made.empty) {
      if (place.data) Plotly.purge(place);
      place.removeAttribute("role"); place.replaceChildren();
    } else {
      if (made.height) place.style.height = made.height;
      place.setAttribute("role", "img"); place.setAttribute("aria-label", made.label);
      figure.querySelector(".table").replaceChildren(table(made.heads, made.rows));
      Plotly.react(place, made.traces, made.layout, { responsive: true, displayModeBar: false });
    }
    figure.dataset.drawn = "yes";
    if (drawn.size === Object.keys(plots).length) document.documentElement.dataset.all = Math.round(performance.now());
  }

  const again = (names) => names.filter((name) => drawn.has(name)).forEach(draw);
  const everything = () => Object.keys(plots).forEach((name) => drawn.has(name) || draw(name));
  const ofCell = Object.keys(plots).filter((name) => name !== "accuracy");

  function choose() {
    const one = cell();
    byId("settings").textContent = one.settings;
    byId("how-of").textContent = one.label;
    byId("versions").replaceChildren(Object.keys(one.versions).length ? table(["part", "version"], Object.entries(one.versions)) : "not known");
    const truth = byId("by-truth"), known = Boolean(portrait() && portrait().truth);
    if (!known) state.colour = "group";
    truth.disabled = !known;
    truth.title = known ? "" : "the true clusters are not known";
    press();
    again(ofCell);
  }

  function press() {
    byId("by-group").setAttribute("aria-pressed", state.colour === "group");
    byId("by-truth").setAttribute("aria-pressed", state.colour === "truth");
  }

  byId("cell")?.addEventListener("change", (event) => { state.cell = Number(event.target.value); choose(); });
  byId("setting")?.addEventListener("change", (event) => { state.setting = Number(event.target.value); again(["accuracy"]); });
  for (const by of ["group", "truth"]) byId("by-" + by).addEventListener("click", () => { state.colour = by; press(); again(["map"]); });
  dark.addEventListener("change", () => again(Object.keys(plots)));
  narrow.addEventListener("change", () => again(Object.keys(plots)));
  addEventListener("beforeprint", everything);

  choose();
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      watcher.unobserve(entry.target);
      draw(entry.target.id.slice(2));
    }
    document.documentElement.dataset.ready ||= Math.round(performance.now());
  }, { rootMargin: "200px" });
  if (location.hash === "#all") everything();
  else document.querySelectorAll("figure").forEach((figure) => watcher.observe(figure));
})();
