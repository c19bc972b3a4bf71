const content = JSON.parse(document.getElementById("content").textContent);

// The libraries stand in the page as gzipped base64: a third of their size.
async function unpacked(id) {
  const packed = Uint8Array.from(atob(document.getElementById(id).textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return URL.createObjectURL(new Blob([await new Response(stream).blob()], { type: "text/javascript" }));
}

function loadScript(url) {
  return new Promise((resolve, reject) => {
    document.head.append(Object.assign(document.createElement("script"), { src: url, onload: resolve, onerror: reject }));
  });
}

const root = document.documentElement;
const systemDark = matchMedia("(prefers-color-scheme: dark)");

function setTheme(dark) {
  root.classList.toggle("dark", dark);
  root.style.colorScheme = dark ? "dark" : "light";
  for (const place of document.querySelectorAll(".js-plotly-plot")) {
    Plotly.relayout(place, { template: content.templates[dark ? "dark" : "light"] });
  }
}

function drawFigure(place) {
  const { data, layout } = content.figures[place.id];
  const template = content.templates[root.classList.contains("dark") ? "dark" : "light"];
  return Plotly.newPlot(place, data, { ...layout, template }, { responsive: true, displaylogo: false });
}

// The first figure at once, the others when they come near the screen.
async function drawFigures() {
  await loadScript(await unpacked("plotly"));
  const [first, ...others] = document.querySelectorAll(".figure");
  const nearby = new IntersectionObserver(
    (seen) => {
      for (const { target } of seen.filter((entry) => entry.isIntersecting)) {
        nearby.unobserve(target);
        drawFigure(target);
      }
    },
    { rootMargin: "200px" },
  );
  for (const place of others) nearby.observe(place);
  if (first) await drawFigure(first);
}

const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 20 });
const shown = (value) => (value === 0 || Math.abs(value) >= 1e-4 ? grouped.format(value) : String(value));
const power = (value) => value.toExponential().replace("+", "");

// What a search of the whole table finds: numbers as shown, as written in code, as powers, as in other tables.
function searched(row) {
  const numbers = row.filter((cell) => typeof cell === "number");
  return [...numbers.map(shown), ...numbers.map(power), row.at(-1)].join(" ");
}

async function drawTable() {
  const { default: DataTable } = await import(await unpacked("datatables"));
  const escaped = DataTable.render.text().display;
  const columns = content.columns.map(({ numeric }, k) => ({
    data: k,
    type: numeric ? "num" : "string",
    className: numeric ? "dt-right" : "dt-left",
    render: (value, use) => {
      if (use === "sort" || use === "type") return value ?? (numeric ? Infinity : "");
      if (value === null) return use === "display" ? "–" : "";
      return use === "display" ? (numeric ? shown(value) : escaped(value)) : value;
    },
  }));
  const words = { data: (row) => searched(row), visible: false };
  const outcome = content.columns.findIndex(({ title }) => title === "outcome");
  new DataTable("#records", {
    data: content.rows,
    columns: [...columns, words],
    order: [],
    autoWidth: false,
    pageLength: 25,
    columnControl: [{ target: 1, content: ["search"] }],
    createdRow: (row, data) => row.children[outcome].classList.toggle("failed", data[outcome] !== "ok"),
  });
  // a filter of numbers takes them as they are shown, with separators
  const plain = ({ target }) => target.closest(".dtcc-searchNumber") && (target.value = target.value.replaceAll(",", ""));
  document.querySelector(".wide").addEventListener("input", plain, { capture: true });
}

setTheme(systemDark.matches);
systemDark.addEventListener("change", (event) => setTheme(event.matches));
document.getElementById("theme").addEventListener("click", () => setTheme(!root.classList.contains("dark")));
await drawTable();
await drawFigures();
root.dataset.ready = "true";
