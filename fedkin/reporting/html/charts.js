const report = JSON.parse(document.getElementById("contents").textContent);
const byId = (id) => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 40rem)");
const coarse = matchMedia("(pointer: coarse)");
const DASHES = ["solid", "10px,4px", "2px,2px", "12px,4px,2px,4px", "6px,2px,2px,2px,2px,2px", "16px,6px", "4px,4px"]; // as in style.py
const SHARE_STEPS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2]; // as in style.py
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x", "triangle-down", "star", "pentagon", "hexagon"];
const state = { setting: 0, run: report.opening, colour: "cluster" };

// Plotly reads a little HTML in its texts; names are shown as they are.
const plain = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const percent = (value, digits = 1) => (value === null || value === undefined ? "-" : (100 * value).toFixed(digits) + "%");
const SCORE = report.score; // words and format of the score of rounds, such as the accuracy
const isAccuracy = SCORE.head === "accuracy";
const grouped = (number) => Number(number).toLocaleString("en");
// A value as text; numbers in units of the label have some significant digits, as in number_texts.py.
function write(value, { unit, digits }) {
  if (value === null || value === undefined) return "-";
  if (unit === "share") return percent(value, digits);
  if (unit !== "label") return value.toFixed(digits);
  const places = Math.min(6, Math.max(0, digits - 1 - (value ? Math.floor(Math.log10(Math.abs(value))) : 0)));
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
}
const hoverFormat = ({ unit, digits }) => (unit === "share" ? "%{y:.1%}" : unit === "label" ? "%{y:,.6~r}" : `%{y:.${digits}f}`);
// Errors without a unit, such as MASE, may be above 1, so they have an axis of numbers.
const axisOf = ({ unit, bounded }) => (unit === "share" ? shares : unit === "index" && bounded ? indices : numbers);
const run = () => report.runs[state.run];
const similarity = () => report.similarities[run().similarity];

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
const hue = (cluster) => (run().largest_clusters.every((k) => k < report.colours.length) ? cluster : run().largest_clusters.indexOf(cluster));

function colour(index) {
  if (index < 0) return dark.matches ? "#7d8894" : "#9aa3ad"; // no cluster, others
  const one = report.colours[index % report.colours.length];
  if (one === "#000000") return theme().ink;
  const lighter = { "#0072B2": "#3d9bd6", "#882255": "#d06a9c", "#AA4499": "#cf7cc3" };
  return (dark.matches && lighter[one]) || one;
}

// A method has the same colour in all pictures.
function methodLine(method) {
  const style = report.styles[method];
  return { color: dark.matches ? style.dark : style.light, dash: DASHES[style.dash] };
}

// A curve of one point would be invisible without its marker.
const mode = (values) => (values.filter((value) => value !== null && value !== undefined).length === 1 ? "lines+markers" : "lines");
const count = (number, one, many) => `${grouped(number)} ${number === 1 ? one : many}`;

function faded(hex, opacity) {
  const value = parseInt(hex.slice(1), 16);
  return `rgba(${value >> 16},${(value >> 8) & 255},${value & 255},${opacity})`;
}

// ---- what all charts have in common

function layout(extra) {
  const t = theme();
  const axis = { gridcolor: t.line, linecolor: t.soft, zeroline: false, ticks: "outside", tickcolor: t.line, automargin: true };
  const full = {
    font: { color: t.ink, size: 12, family: "system-ui, sans-serif" },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 48, r: 24, t: 12, b: 44 }, hovermode: "closest",
    dragmode: coarse.matches ? false : "zoom",
    hoverlabel: { bgcolor: t.card, bordercolor: t.soft, font: { color: t.ink } },
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, font: { color: t.ink } },
    ...extra,
  };
  for (const name of ["xaxis", "yaxis", "xaxis2", "yaxis2"]) if (full[name] || name.length === 5) full[name] = { ...axis, ...full[name] };
  return full;
}

const rounds = (last, extra) => ({ title: { text: "communication round" }, unifiedhovertitle: { text: "round %{x}" }, rangemode: "tozero", showgrid: false, ...(last <= 10 ? { dtick: 1 } : {}), ...extra });

// An axis of shares from tick to tick around the curves, so that it ends with 100% if a curve is near it.
function shares(curves, title) {
  const known = curves.flat().filter((value) => value !== null && value !== undefined).map((value) => Math.min(1, Math.max(0, value)));
  const low = known.length ? Math.min(...known) : 0, high = known.length ? Math.max(...known) : 1;
  const step = SHARE_STEPS.find((one) => high > low && high - low <= 5 * one + 1e-9) || 0.2; // equal values need no fine ticks
  let bottom = step * Math.floor(low / step + 1e-9), top = step * Math.ceil(high / step - 1e-9);
  if (top === bottom) [bottom, top] = top < 1 ? [bottom, top + step] : [bottom - step, top];
  const room = 0.03 * (top - bottom), ticks = Math.round((top - bottom) / step) + 1;
  return {
    range: [bottom - room, top + room], tickvals: Array.from({ length: ticks }, (_, i) => bottom + i * step), tickformat: step < 0.01 ? ".1%" : ".0%",
    zeroline: false, title: { text: title, standoff: 10 },
  };
}

// An axis of the adjusted Rand index: 1 is agreement, 0 what chance gives, and less is possible.
function indices(curves, title) {
  const low = Math.min(0, ...curves.flat().filter((value) => value !== null && value !== undefined));
  return { tickformat: ".1f", range: [low - 0.03, 1.03], zeroline: false, title: { text: title, standoff: 10 } };
}

// An axis of any other numbers.
function numbers(curves, title) {
  return { zeroline: false, title: { text: title, standoff: 10 } };
}

// All values at a round, in one box.
const unified = { hovermode: "x unified" };

function eventLines(events) {
  const t = theme(), shapes = [], annotations = [];
  for (const [what, dash, text, y] of [["shifts", "solid", "data shift", 1], ["newcomers", "dot", "newcomers", 0.93]]) {
    (events[what] || []).forEach((round, place) => {
      shapes.push({ type: "line", x0: round, x1: round, yref: "paper", y0: 0, y1: 1, line: { color: t.soft, width: 1, dash } });
      if (!place) annotations.push({ x: round, y, yref: "paper", xanchor: "left", yanchor: "top", showarrow: false, text, font: { size: 11, color: t.soft } });
    });
  }
  return { shapes, annotations };
}

const eventText = (events) =>
  [["shifts", "Data shifts in rounds "], ["newcomers", "Newcomers in rounds "]]
    .filter(([what]) => (events[what] || []).length)
    .map(([what, text]) => " " + text + events[what].slice(0, 12).join(", ") + (events[what].length > 12 ? ", ..." : "") + ".")
    .join("");

function last(values) {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i];
  return null;
}

const spaced = (ticks) => (narrow.matches && ticks.length > 2 ? [ticks[0], ticks[ticks.length - 1]] : ticks); // a narrow chart has room for two

function some(count, limit = 12) { // evenly spread places of a list
  if (count <= limit) return Array.from({ length: count }, (_, i) => i);
  return [...new Set(Array.from({ length: limit }, (_, i) => Math.round((i * (count - 1)) / (limit - 1))))];
}

const scoredSplit = () => report.accuracy[state.setting].split; // the samples on which rounds were scored

// Curves of all methods in a setting, with their intervals.
function overRounds(kind, title, what, measure = { unit: kind === "ari" ? "index" : "share", digits: kind === "ari" ? 2 : 1, bounded: true }) {
  const hover = hoverFormat(measure), text = (value) => write(value, measure);
  const chart = report.accuracy[state.setting], traces = [], pale = kind === "accuracy" && chart.lines.some((l) => l.partial);
  const lines = chart.lines.map((line) => ({ ...line, y: line[kind], low: line[kind + "_low"], high: line[kind + "_high"] })).filter((line) => line.y);
  if (!lines.length) return { empty: kind === "ari" ? "The true clusters are not known." : "No round was scored." };
  if (lines.every((line) => line.y.every((v) => v === null) && !line.partial)) return { empty: "No client was tested." };
  const at = (line, k) => line.y[k] ?? (kind === "accuracy" && line.partial ? line.partial[k] : null);
  const scored = [...new Set(lines.flatMap((line) => line.rounds.filter((_, k) => at(line, k) !== null)))];
  if (scored.length === 1) return { empty: `Only round ${scored[0]} was scored: ${lines.map((line) => `${line.method} ${text(at(line, line.rounds.indexOf(scored[0])) ?? null)}`).join(", ")}.` };
  const some_band = lines.some((line) => line.low.some((v) => v !== null));
  lines.forEach(({ method, rounds: x, y, low, high, partial }) => {
    const { color: shade, dash } = methodLine(method), known = x.map((_, k) => k).filter((k) => low[k] !== null), back = [...known].reverse();
    const common = { mode: "lines", name: plain(method), legendgroup: method };
    if (known.length) traces.push({
      ...common, x: [...known, ...back].map((k) => x[k]), y: [...known.map((k) => low[k]), ...back.map((k) => high[k])],
      fill: "toself", line: { width: 0 }, fillcolor: faded(rgb(shade), 0.18), showlegend: false, hoverinfo: "skip",
    });
    if (kind === "accuracy" && partial) traces.push({ ...common, x, y: partial, showlegend: false, line: { color: shade, width: 2, dash }, opacity: 0.4, hovertemplate: hover + " (some clients without a cluster, or away)" });
    traces.push({ ...common, mode: mode(y), x, y, showlegend: true, line: { color: shade, width: 2.4, dash }, hovertemplate: hover });
  });
  const end = (line) => text(last(line.y) ?? (kind === "accuracy" || kind === "bottom_decile" ? last(line.partial || []) : null));
  const longest = lines.reduce((a, b) => (b.rounds.length > a.rounds.length ? b : a));
  const drawn = lines.flatMap((line) => [line.y, line.low, line.high, kind === "accuracy" ? line.partial || [] : []]);
  return {
    traces, layout: layout({ ...unified, showlegend: true, xaxis: rounds(last(longest.rounds)), yaxis: axisOf(measure)(drawn, title), ...eventLines(chart.events) }),
    label: `${what} Over the rounds: ${lines.map((line) => `${line.method} ends at ${end(line)}`).join("; ")}.${eventText(chart.events)}`,
    note: what + (some_band ? " Bands: 95% intervals over the seeds." : "") + (pale ? " Pale: some clients have no cluster yet, or are away." : ""),
    heads: ["round", ...lines.map((line) => line.method)],
    rows: some(longest.rounds.length).map((k) => [longest.rounds[k], ...lines.map((line) => text(at(line, k)))]),
  };
}

function notRanked(lines) {
  const most = Math.max(...lines.map((line) => line.clients.unranked || 0));
  return most ? ` ${count(most, "client", "clients")} with fewer than 10 test samples ${most === 1 ? "is" : "are"} not shown.` : "";
}

// ---- the charts: traces, layout, a description for screen readers, and a short table

const charts = {
  accuracy() {
    const what = isAccuracy ? "All clients together." : `All clients together, per sample. Better is ${SCORE.direction}.`;
    return overRounds("accuracy", `${scoredSplit()} ${SCORE.head}`, what, SCORE);
  },

  bottom() {
    const which = isAccuracy ? "" : `: those with the ${SCORE.worst_word} ${SCORE.head}`;
    return overRounds("bottom_decile", `mean ${scoredSplit()} ${SCORE.head}`, `Mean ${SCORE.head} of the 10% of clients that are served worst${which}.`, SCORE);
  },

  ari() {
    return overRounds("ari", "adjusted Rand index", "Clusters and true clusters of the clients: 1 is equal, 0 what chance gives; one model for all has 0.");
  },

  clients() {
    const lines = report.accuracy[state.setting].lines.filter((line) => line.clients), t = theme(), text = (value) => write(value, SCORE);
    if (lines.length && lines.every((line) => line.clients.clients === 1)) return { empty: `There is one client: ${lines.map((line) => `${line.method} ${text(line.clients.accuracy[0])}`).join(", ")}.` };
    if (!lines.length) return { empty: (isAccuracy ? "Accuracies" : "Scores") + " of single clients are known when a run is finished." };
    const traces = lines.map((line) => {
      const name = plain(line.method), one = line.clients, { color, dash } = methodLine(line.method);
      return {
        x: one.shares, y: one.accuracy, mode: one.clients <= 40 ? "lines+markers" : "lines", name, line: { color, dash, width: 2, shape: "hv" },
        marker: { size: 5 }, hovertemplate: hoverFormat(SCORE),
      };
    });
    const several = Math.max(...report.accuracy[state.setting].lines.map((line) => line.seeds)) > 1;
    return {
      traces,
      layout: layout({
        ...unified, showlegend: true,
        xaxis: { title: { text: `clients, ${SCORE.worst_word} ${SCORE.head} first` }, tickformat: ".0%", range: [0, 1], tickvals: [0, 0.2, 0.4, 0.6, 0.8, 1], showgrid: false, unifiedhovertitle: { text: `%{x:.0%} of the clients have at ${SCORE.worst_word === "highest" ? "least" : "most"}` } },
        yaxis: axisOf(SCORE)(lines.map((line) => line.clients.accuracy), `client's test ${SCORE.head}`),
        shapes: [{ type: "rect", x0: 0, x1: 0.1, yref: "paper", y0: 0, y1: 1, fillcolor: faded(rgb(t.soft), 0.15), line: { width: 0 }, layer: "below" }],
      }),
      label: `Test ${SCORE.head} of single clients after the last round, ${SCORE.worst_word} first. ${lines.map((l) => `${l.method}: ${SCORE.worst} ${text(l.clients.bottom)}, median ${text(l.clients.quartiles[1])}, standard deviation ${text(l.clients.spread)}`).join("; ")}.`,
      note: `After the last round; grey: the ${SCORE.worst}.${several ? " Clients of all seeds together." : ""} Spread (standard deviation over clients): ${lines.map((l) => `${l.method} ${SCORE.unit === "share" ? (100 * l.clients.spread).toFixed(1) + " points" : text(l.clients.spread)}`).join(", ")}.${notRanked(lines)}`,
      heads: ["method", "clients", SCORE.worst, "lower quartile", "median", "upper quartile", "spread"],
      rows: lines.map(({ method, clients: c }) => [method, grouped(c.clients), text(c.bottom), ...c.quartiles.map((q) => text(q)), text(c.spread)]),
    };
  },

  clusters() {
    const { rounds: x, lines, omitted } = run().cluster_accuracy;
    if (!lines.length) return { empty: run().left_out ? LEFT_OUT : `No ${SCORE.head} by cluster was measured.` };
    const traces = lines.map((line) => ({
      x, y: line.accuracy, mode: mode(line.accuracy), name: `cluster ${line.cluster}`,
      line: { color: colour(hue(line.cluster)), dash: DASHES[Math.max(0, hue(line.cluster)) % DASHES.length], width: 2 },
      hovertemplate: hoverFormat(SCORE),
    }));
    const text = (value) => write(value, SCORE);
    const scored = [...new Set(lines.flatMap((line) => x.filter((_, k) => line.accuracy[k] !== null)))];
    if (scored.length === 1) return { empty: `Only round ${scored[0]} was scored: ${lines.map((line) => `cluster ${line.cluster} ${text(line.accuracy[x.indexOf(scored[0])])}`).join(", ")}.` };
    const ends = lines.map((line) => `cluster ${line.cluster} ends at ${text(last(line.accuracy))}`);
    return {
      traces, layout: layout({ ...unified, xaxis: rounds(last(x)), yaxis: axisOf(SCORE)(lines.map((line) => line.accuracy), `${run().split} ${SCORE.head}`), showlegend: true, ...eventLines(run().events) }),
      label: `${run().split === "test" ? "Test" : "Validation"} ${SCORE.head} of each cluster's clients. ${ends.join("; ")}.${eventText(run().events)}`,
      note: omitted > 0 ? `${lines.length === 1 ? "The largest cluster" : `The ${lines.length} largest clusters`}; ${count(omitted, "other is", "others are")} omitted.` : "All clients of a cluster together.",
      heads: ["round", ...lines.map((l) => `cluster ${l.cluster}`)],
      rows: some(x.length).map((k) => [x[k], ...lines.map((l) => text(l.accuracy[k]))]),
    };
  },

  alluvial() {
    const r = run().alluvial;
    if (!r) return { empty: run().left_out ? LEFT_OUT : "Cluster membership is not known: the run has no migrations.jsonl." };
    const still = r.sizes.every((column) => column.every((size, b) => size === r.sizes[0][b])) && !run().migrations.total;
    if (still) return { empty: `No migrations: in all rounds the clusters have the same clients (${r.bands.map((band, b) => `${band.name}: ${grouped(r.sizes[0][b])}`).join(", ")}).` };
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
      const arrivals = (moved.get(c - 1) || []).filter(([, , target]) => target === b);
      spots.x.push(round); spots.y.push(r.base[c][b] + r.sizes[c][b] / 2);
      spots.text.push(`${band.name}, round ${round}: ${grouped(r.sizes[c][b])} clients` + arrivals.map(([n, s]) => `<br>${grouped(n)} from ${r.bands[s].name}${r.omitted ? ` since round ${r.rounds[c - 1]}` : ""}`).join(""));
    }));
    traces.push({ ...spots, mode: "markers", marker: { size: 12, opacity: 0 }, hovertemplate: "%{text}<extra></extra>", showlegend: false });
    const net = r.omitted ? ` Of the rounds with migrations, ${r.omitted === 1 ? "1 is" : grouped(r.omitted) + " are"} not drawn: flows between two columns are net flows.` : "";
    const all = run().migrations, times = (n, what) => count(n, what, what + "s");
    return {
      traces,
      layout: layout({ xaxis: rounds(r.last, { range: [0, r.last || 1] }), yaxis: { title: { text: "clients, by cluster" }, showticklabels: false, showgrid: false, ticks: "" }, ...eventLines(run().events) }),
      label: `Clusters as bands over the rounds; ${all.total ? `${times(all.total, "migration")} in ${times(all.rounds, "round")}; the most in round ${all.peak}` : "no migrations"}.${net}` + eventText(run().events),
      note: "The height of a band is the number of clients in the cluster; migrations are paler. " + (all.total ? `${times(all.total, "migration")}.` : "No migrations.") + net + (all.rounds > all.busiest.length ? ` The table has the ${all.busiest.length} rounds with the most migrations.` : "") + (run().peers ? " Communities of peers get new numbers in each round, so some migrations may be only changes of the number." : ""),
      heads: ["round", "migrations", "from and to"],
      rows: all.busiest.map(([round, moved, list]) => [round, moved, list.map(([n, from, to]) => `${n}: ${from} to ${to}`).join("; ")]),
    };
  },

  membership() {
    const m = run().membership;
    if (!m) return { empty: "Every client belongs to one cluster." };
    const places = m.clients.map((_, i) => i), ends = m.shares.map((row) => row.reduce((a, b) => a + b, 0) / row.length);
    const thin = m.total > m.clients.length ? ` ${m.clients.length} of ${grouped(m.total)}, evenly spread.` : "";
    const clear = `${percent(m.clear, 0)} of the clients have more than half of one cluster.`;
    return {
      traces: m.shares.map((row, k) => ({
        type: "bar", x: places, y: row, name: `cluster ${k}`, marker: { color: colour(k), line: { width: 0 } }, customdata: m.clients.map(plain),
        hovertemplate: `client %{customdata}: %{y:.1%} of cluster ${k}<extra></extra>`,
      })),
      layout: layout({ barmode: "stack", bargap: 0, showlegend: true, xaxis: { title: { text: "clients, by their largest share" }, showticklabels: false, ticks: "", showgrid: false }, yaxis: { range: [0, 1], tickformat: ".0%", title: { text: "share of the cluster" } } }),
      label: `Shares of ${m.shares.length} clusters in ${grouped(m.total)} clients. ${clear} On average ${ends.map((share, k) => `${percent(share, 0)} cluster ${k}`).join(", ")}.`,
      note: `How much each client has of every cluster. ${clear}${thin}`,
      heads: ["client", ...m.shares.slice(0, 12).map((_, k) => `cluster ${k}`)],
      rows: some(m.clients.length, 20).map((i) => [m.clients[i], ...m.shares.slice(0, 12).map((row) => percent(row[i], 0))]),
    };
  },

  map() {
    const p = similarity();
    if (!p) return { empty: missing };
    const truth = state.colour === "true_cluster" && p.true_clusters;
    const what = truth ? "true cluster" : "cluster", OTHERS = -2, own = run().largest_clusters;
    const clusters = truth ? p.true_clusters.map((k) => (k < 10 ? k : OTHERS)) : run().assignment.map((k) => (k < 0 || own.includes(k) ? k : OTHERS));
    const place = (k) => (truth || k < 0 ? k : hue(k));
    if (p.ids.length < 2) return { empty: "A map needs at least two clients." };
    const inside = (value, [low, high]) => Math.min(high, Math.max(low, value));
    const outlier = (i) => p.x[i] !== inside(p.x[i], p.x_range) || p.y[i] !== inside(p.y[i], p.y_range), outliers = p.ids.filter((_, i) => outlier(i));
    const traces = [...new Set(clusters)].sort((a, b) => a - b).map((k) => {
      const members = clusters.map((_, i) => i).filter((i) => clusters[i] === k).sort((a, b) => outlier(a) - outlier(b)); // the legend shows the first symbol
      const name = k === OTHERS ? "other clusters" : k < 0 ? "no cluster" : `${what} ${k}`;
      return {
        x: members.map((i) => inside(p.x[i], p.x_range)), y: members.map((i) => inside(p.y[i], p.y_range)), mode: "markers", name, cliponaxis: false,
        marker: { color: colour(place(k)), symbol: members.map((i) => SYMBOLS[Math.max(0, place(k)) % SYMBOLS.length] + (k < 0 || outlier(i) ? "-open" : "")), size: k < 0 ? 7 : 9, opacity: 0.85, line: { width: members.map((i) => (k < 0 || outlier(i) ? 1.5 : 0.5)), color: members.map((i) => (k < 0 || outlier(i) ? colour(place(k)) : theme().card)) } },
        text: members.map((i) => `client ${p.ids[i]}` + (p.names ? ` (${plain(p.names[i])})` : "") + `<br>cluster ${run().assignment[i] < 0 ? "-" : run().assignment[i]}` + (p.true_clusters ? `, true cluster ${p.true_clusters[i]}` : "") + (outlier(i) ? "<br>far outside, drawn at the edge" : "")),
        hovertemplate: "%{text}<extra></extra>",
      };
    });
    return {
      traces,
      layout: layout({ showlegend: true, xaxis: { range: p.x_range, title: { text: `first component (${percent(p.explained[0], 0)} of the variance)` }, showticklabels: false, ticks: "" }, yaxis: { range: p.y_range, title: { text: `second (${percent(p.explained[1], 0)})` }, showticklabels: false, ticks: "" } }),
      label: `Map of ${p.ids.length} clients by the first two principal components of their updates, coloured by ${what}: ${traces.map((t) => `${t.x.length} in ${t.name}`).join(", ")}.`,
      note: `Each of ${grouped(p.ids.length)} clients${p.clients > p.ids.length ? ` (of ${grouped(p.clients)}, evenly spread)` : ""} trained one local epoch from the same initial model; clients with similar updates are near each other.${outliers.length ? ` ${count(outliers.length, "client is", "clients are")} far outside and drawn at the edge, with open symbols (${outliers.slice(0, 8).map((id) => `client ${id}`).join(", ")}${outliers.length > 8 ? ", ..." : ""}).` : ""} ${p.note}`,
      heads: ["client", ...(p.names ? ["name"] : []), "cluster", ...(p.true_clusters ? ["true cluster"] : []), "first", "second"],
      rows: some(p.ids.length, 20).map((i) => [p.ids[i], ...(p.names ? [p.names[i]] : []), run().assignment[i], ...(p.true_clusters ? [p.true_clusters[i]] : []), p.x[i].toFixed(2), p.y[i].toFixed(2)]),
    };
  },

  similarity() {
    const p = similarity();
    if (!p) return { empty: missing };
    if (p.ids.length < 2) return { empty: "A similarity needs at least two clients." };
    const { kind, order, lines } = run().tree, n = order.length, raw = atob(p.cosines), t = theme();
    const [low, high] = p.range, value = (i, j) => low + ((high - low) * raw.charCodeAt(order[i] * n + order[j])) / 255;
    const z = order.map((_, i) => order.map((_, j) => Math.round(1000 * value(i, j)) / 1000));
    const ids = order.map((i) => p.ids[i]), clusters = order.map((i) => run().assignment[i]);
    const edges = [0]; for (let i = 1; i <= n; i++) if (i === n || clusters[i] !== clusters[i - 1]) edges.push(i);
    const blocks = edges.slice(1).map((end, k) => ({ from: edges[k], end, cluster: clusters[edges[k]] }));
    const within = [], across = [];
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) (clusters[i] === clusters[j] ? within : across).push(z[i][j]);
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
        { type: "heatmap", z, zmin: spread[Math.floor(spread.length * 0.02)] ?? low, zmax: spread[Math.floor(spread.length * 0.98)] ?? high, colorscale: "Cividis", customdata: order.map((_, i) => order.map((_, j) => [ids[i], ids[j]])), hovertemplate: "clients %{customdata[0]} and %{customdata[1]}: cosine %{z}<extra></extra>", colorbar: narrow.matches ? { orientation: "h", thickness: 10, y: 1.02, yanchor: "bottom", x: 0.67, len: 0.66, nticks: 4, outlinewidth: 0 } : { thickness: 10, len: 0.9, title: { text: "cosine", side: "right" }, outlinewidth: 0 } },
        { x: tx, y: ty, xaxis: "x2", mode: "lines", line: { color: t.ink, width: split ? 2 : 1 }, hoverinfo: "skip", showlegend: false },
      ],
      layout: layout({
        margin: { l: 12, r: 12, t: narrow.matches ? 40 : 12, b: 44 }, shapes: blocks.length > 12 ? [] : edges.slice(1, -1).flatMap(rule),
        xaxis: { domain: [0.34, 1], range: [-0.5, n - 0.5], showticklabels: false, ticks: "", showgrid: false },
        yaxis: { range: [n - 0.5, -0.5], showgrid: false, ticks: "", anchor: "x", title: narrow.matches ? {} : { text: "cluster", standoff: 4 }, tickvals: blocks.length <= 12 ? blocks.map((b) => (b.from + b.end - 1) / 2) : [], ticktext: blocks.map((b) => (b.cluster < 0 ? "none" : String(b.cluster))) },
        xaxis2: { domain: [0, narrow.matches ? 0.2 : split ? 0.24 : 0.26], showgrid: false, anchor: "y", nticks: narrow.matches ? 2 : 4, title: { text: split ? "round" : "dissimilarity" }, autorange: split ? true : "reversed" },
      }),
      label: `Cosine similarity of ${n} clients' updates, in the order of their clusters: ${mean(within)} on average within clusters, ${mean(across)} across them. On its left is ${split ? "the tree of the splits that the method made" : "a dendrogram"}.`,
      note: (split ? "Clients by cluster. Left: which cluster was split in which round. " : "Clients by cluster. Left: average linkage of (1 - cosine) / 2, inside the clusters first and then of the clusters. ") + (narrow.matches ? "Colours: cosine; numbers: cluster. " : "") + p.note,
      heads: ["cluster", ...blocks.slice(0, 12).map((b) => (b.cluster < 0 ? "none" : b.cluster))],
      rows: blocks.slice(0, 12).map((a) => [a.cluster < 0 ? "none" : `cluster ${a.cluster}`, ...blocks.slice(0, 12).map((b) => {
        const values = [];
        for (let i = a.from; i < a.end; i++) for (let j = b.from; j < b.end; j++) if (i !== j) values.push(z[i][j]);
        return mean(values);
      })]),
    };
  },

  labels() {
    const l = run().labels;
    if (!l) return { empty: missing };
    const total = l.counts.map((row) => row.reduce((a, b) => a + b, 0) || 1);
    const z = l.counts.map((row, k) => row.map((count) => count / total[k]));
    const few = l.classes.length <= 12 && l.names.length <= 12 && !narrow.matches;
    return {
      height: `max(14rem, ${1.7 * l.names.length + 5}rem)`,
      traces: [{ type: "heatmap", z, x: l.classes.map(String), y: l.names.map((name, k) => `${name} (${grouped(l.clients[k])})`), colorscale: "Cividis", zmin: 0, zmax: Math.max(0.01, ...z.flat()), customdata: l.counts, hovertemplate: "%{y}<br>class %{x}: %{z:.1%}, %{customdata:,} samples<extra></extra>", texttemplate: few ? "%{z:.0%}" : "", xgap: 1, ygap: 1, colorbar: { thickness: 10, tickformat: ".0%", outlinewidth: 0 } }],
      layout: layout({ xaxis: { type: "category", title: { text: "class" }, showgrid: false, ticks: "" }, yaxis: { autorange: "reversed", showgrid: false, ticks: "" } }),
      label: `Labels by cluster, as shares of the training samples of its clients. ${l.names.slice(0, 12).map((name, k) => { const top = z[k].map((v, c) => [v, l.classes[c]]).sort((a, b) => b[0] - a[0]).slice(0, 2); return `${name}: ${top.map(([v, c]) => `${percent(v, 0)} class ${c}`).join(", ")}`; }).join("; ")}.`,
      note: "Share of each class in a cluster's training samples; in brackets its clients." + (l.omitted_classes ? ` The ${count(l.omitted_classes, "rarest class is", "rarest classes are")} omitted.` : "") + (l.omitted_clusters ? ` The ${count(l.omitted_clusters, "smallest cluster is", "smallest clusters are")} omitted.` : "") + (similarity().note ? " " + similarity().note : ""),
      heads: ["cluster", "clients", ...l.classes.slice(0, 12).map((c) => `class ${c}`)],
      rows: l.names.slice(0, 20).map((name, k) => [name, l.clients[k], ...z[k].slice(0, 12).map((v) => percent(v, 0))]),
    };
  },

  communication() {
    const rows = run().communication;
    if (!rows.length) return { empty: "No bytes were counted." };
    const name = (row) => plain(row.operation) + (row.kind ? ` (${row.kind})` : "");
    const bar = (side, index, shape) => ({
      type: "bar", orientation: "h", name: side, y: rows.map(name), x: rows.map((row) => row[side]),
      marker: { color: colour(index), opacity: rows.map((row) => (row.kind ? 0.55 : 1)), pattern: { shape, fillmode: "overlay", fgcolor: theme().card, solidity: 0.25 } },
      text: rows.map((row) => bytes(row[side])), textposition: "outside", textfont: { color: theme().ink }, hovertemplate: `%{y}, ${side}: %{text}<extra></extra>`,
    });
    return {
      traces: [bar("download", 0, ""), bar("upload", 1, "/")],
      layout: layout({ barmode: "group", xaxis: { title: { text: "bytes" }, tickvals: spaced(run().communication_ticks.values), ticktext: spaced(run().communication_ticks.texts), tickangle: 0, range: [0, (narrow.matches ? 1.6 : 1.25) * Math.max(1, ...rows.flatMap((row) => [row.download, row.upload]))] }, yaxis: { autorange: "reversed", showgrid: false, ticks: "" } }),
      label: `Bytes by operation. ${rows.map((row) => `${name(row)}: ${bytes(row.download)} download, ${bytes(row.upload)} upload`).join("; ")}.`,
      note: "Bytes over the network in the whole run. Evaluation traffic (pale) is not counted as the method's.",
      heads: ["operation", "download", "upload"], rows: rows.map((row) => [name(row), bytes(row.download), bytes(row.upload)]),
    };
  },
};
const LEFT_OUT = "Left out, so that this page stays small: a report of this run alone has it.";
const missing = "The similarity of this run's clients is not known; see the notes at the top.";

function rgb(text) { // a colour of the theme may be written in three digits
  return text.length === 4 ? "#" + [...text.slice(1)].map((c) => c + c).join("") : text;
}

// Measures of the runs that have no chart among these.
for (const measure of report.measures) {
  charts["measure-" + measure.name] = () => overRounds(measure.name, measure.head, measure.title, measure);
}
