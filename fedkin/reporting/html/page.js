// ---- drawing

const names = Object.keys(charts).filter((name) => byId(name)); // some pages have no similarity charts
const drawn = new Set();

// Whether a column has words, which are aligned left (numeric_columns in number_texts.py).
function isText(cells) {
  const known = cells.filter((cell) => cell !== "" && cell !== "-");
  return 2 * known.filter((cell) => /^[+\-\u2212<]? ?\.?\d/.test(cell)).length < known.length;
}

function table(heads, rows) {
  const result = document.createElement("table"), head = result.createTHead().insertRow();
  if (heads.length > 3) result.className = "list";
  const words = heads.map((_, k) => isText(rows.map((row) => String(row[k]))));
  heads.forEach((text, k) => { const th = document.createElement("th"); th.scope = "col"; th.textContent = text; th.className = words[k] ? "text" : ""; head.append(th); });
  const body = result.createTBody();
  for (const row of rows) { const tr = body.insertRow(); row.forEach((text, k) => { const td = tr.insertCell(); td.textContent = text; td.dataset.label = heads[k]; td.className = words[k] ? "text" : ""; }); }
  return result;
}

function draw(name) {
  const figure = byId("f-" + name), place = byId(name), result = charts[name]();
  drawn.add(name);
  figure.querySelector(".note").textContent = result.empty || result.note || "";
  place.classList.toggle("none", Boolean(result.empty));
  figure.querySelector("details").hidden = Boolean(result.empty);
  figure.querySelectorAll("button").forEach((one) => { one.hidden = Boolean(result.empty); });
  if (result.empty) {
    if (place.data) Plotly.purge(place);
    place.removeAttribute("role"); place.replaceChildren();
  } else {
    if (result.height) place.style.height = result.height;
    place.setAttribute("role", "img"); place.setAttribute("aria-label", result.label);
    figure.querySelector(".table").replaceChildren(table(result.heads, result.rows));
    Plotly.react(place, result.traces, result.layout, { responsive: true, displayModeBar: false });
  }
  figure.dataset.drawn = "yes";
  if (drawn.size === names.length) document.documentElement.dataset.all = Math.round(performance.now());
}

// A table that is wider than the page gets smaller letters, and then cells of several lines.
for (const place of document.querySelectorAll("main > section > .table")) {
  for (const narrow of ["dense", "folded"]) if (place.scrollWidth > place.clientWidth) place.classList.add(narrow);
}

const redraw = (some) => some.filter((name) => drawn.has(name)).forEach(draw);
const drawAll = () => names.forEach((name) => drawn.has(name) || draw(name));
const OF_SETTING = ["accuracy", "bottom", "clients", "ari", ...report.measures.map((one) => "measure-" + one.name)];
const ofRun = names.filter((name) => !OF_SETTING.includes(name));

function selectRun() {
  const one = run();
  byId("config").textContent = one.config;
  byId("config-of").textContent = byId("shown-run").textContent = one.label;
  byId("versions").replaceChildren(Object.keys(one.versions).length ? table(["part", "version"], Object.entries(one.versions)) : "not known");
  for (const who of document.querySelectorAll("details.clients")) {
    const shown = one[who.id];
    who.hidden = !shown.rows.length;
    who.querySelector(".note").textContent = shown.note;
    who.querySelector(".table").replaceChildren(table(shown.heads, shown.rows));
  }
  if (byId("map")) {
    const button = byId("by-true_cluster"), known = Boolean(similarity() && similarity().true_clusters);
    if (!known) state.colour = "cluster";
    button.disabled = !known;
    button.title = known ? "" : "the true clusters are not known";
    press();
  }
  redraw(ofRun);
}

function press() {
  for (const by of ["cluster", "true_cluster"]) byId("by-" + by).setAttribute("aria-pressed", state.colour === by);
}

byId("run")?.addEventListener("change", (event) => { state.run = Number(event.target.value); selectRun(); });
byId("setting")?.addEventListener("change", (event) => { state.setting = Number(event.target.value); redraw(OF_SETTING); });
for (const by of ["cluster", "true_cluster"]) byId("by-" + by)?.addEventListener("click", () => { state.colour = by; press(); redraw(["map"]); });
dark.addEventListener("change", () => redraw(names));
narrow.addEventListener("change", () => redraw(names));
addEventListener("beforeprint", drawAll);

selectRun();
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    draw(entry.target.id.slice(2));
  }
  document.documentElement.dataset.ready ||= Math.round(performance.now());
}, { rootMargin: "200px" });
const idle = window.requestIdleCallback || ((work) => setTimeout(work, 50));
function drawNext() { // draws charts that are not yet visible, so that prints of the page have all charts
  const name = names.find((one) => !drawn.has(one));
  if (!name) return;
  watcher.unobserve(byId("f-" + name));
  draw(name);
  idle(drawNext);
}
// a program that takes a picture of the page does not scroll, and may not wait
if (location.hash === "#all" || /Headless/.test(navigator.userAgent)) {
  drawAll();
  document.documentElement.dataset.ready = Math.round(performance.now());
}
else { document.querySelectorAll("figure").forEach((figure) => watcher.observe(figure)); addEventListener("load", () => idle(drawNext)); }
