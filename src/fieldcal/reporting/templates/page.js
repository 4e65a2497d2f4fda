"use strict";
// Parts that are folded: one that a link leads to is opened, and on paper all are. They fold without a script, too.
{
  const folds = [...document.querySelectorAll(".fold > details")];
  let shut = [];
  const reveal = (hash) => {
    const part = hash.length > 1 ? document.getElementById(hash.slice(1)) : null, fold = part?.closest(".fold");
    if (!fold) return;
    fold.firstElementChild.open = true;
    requestAnimationFrame(() => fold.scrollIntoView());
  };
  for (const link of document.querySelectorAll('a[href^="#"]')) link.addEventListener("click", () => reveal(link.hash));
  addEventListener("hashchange", () => reveal(location.hash));
  addEventListener("beforeprint", () => {
    shut = folds.filter((fold) => !fold.open);
    for (const fold of shut) fold.open = true;
  });
  addEventListener("afterprint", () => {
    for (const fold of shut) fold.open = false;
  });
  reveal(location.hash);
}
// The table of groups: sorted, searched, paged and downloaded here. Everything else works without a script.
(async () => {
  const LINES = 100, PRINTED = 400;
  const by = (id) => document.getElementById(id);
  const packed = Uint8Array.from(atob(by("data").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = JSON.parse(await new Response(stream).text());
  const table = by("table"), body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const labels = heads.map((head) => (head.dataset.key ? head.textContent : "")), first = Number(table.dataset.first);
  const search = by("search"), status = by("status"), which = by("class");
  const folded = data.names.map((name) => name.toLowerCase());
  const total = folded.length, numbers = ["mean_prediction", "estimate", "lower", "upper", "truth", "break_even"];
  // The whole field is beyond the last group in every column, and above all of them in the table.
  const pinned = data.whole === null ? [] : [total];
  for (const i of pinned) {
    for (const key of ["names", "n", "effect", "labelled", "status"]) if (data[key]) data[key][i] = data.whole[key];
    data.classes.forEach((c, j) => numbers.forEach((key) => c[key] && (c[key][i] = data.whole.classes[j][key])));
  }
  // The column before the last, if there is one: misfit, or labelled rows where values were judged.
  const extra = heads.at(-2).dataset.key, further = { effect: (i) => misfit(data.effect[i]), labelled: (i) => count(data.labelled[i]) }[extra];
  let chosen = data.classes[0], order = null, down = false, page = 0, found = [];

  const levels = { ok: "ok to use", care: "use with care", do_not_use: "do not use" };
  const worded = (flags) => levels[flags] ?? flags.replaceAll("_", " ").replaceAll(",", ", ");
  const share = (steps) => steps * data.step;
  // Halves up, as in the rows that the page came with.
  const tenth = Math.round(0.001 / data.step);
  const tenths = (steps) => (Math.floor((2 * steps + tenth) / (2 * tenth)) / 10).toFixed(1);
  const percent = (steps) => (steps === null ? "–" : tenths(steps) + "%");
  const signed = (size, sign) => (size === "0.0" ? size : sign + size);
  const points = (steps) => signed(tenths(Math.abs(steps)), steps < 0 ? "-" : "+");
  const count = (n) =>
    (Math.floor(10 * n + 0.5) / 10).toLocaleString("en-US", { maximumFractionDigits: 1 });
  const misfit = (effect) => (Math.floor(100 * effect + 0.5) / 100).toFixed(2);
  const value = {
    name: (i) => folded[i],
    n: (i) => data.n[i],
    mean_prediction: (i) => chosen.mean_prediction[i],
    estimate: (i) => chosen.estimate[i],
    lower: (i) => (chosen.lower === null ? 0 : chosen.upper[i] - chosen.lower[i]),
    change: (i) => chosen.estimate[i] - chosen.mean_prediction[i],
    truth: (i) => (chosen.truth[i] === null ? -1 : chosen.truth[i]),
    break_even: (i) => (chosen.break_even[i] === null ? -1 : chosen.break_even[i]),
    effect: (i) => data.effect[i],
    labelled: (i) => data.labelled[i],
    status: (i) => data.status[i],
  };

  function cell(row, text, tag = "td") {
    const made = document.createElement(tag);
    if (tag === "th") {
      made.scope = "row";
      made.appendChild(document.createElement("bdi")).textContent = text;
    } else made.textContent = text;
    const label = labels[row.cells.length];
    if (tag === "td" && label) made.dataset.label = label;
    row.append(made);
    return made;
  }

  function shape(parent, tag, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, text] of Object.entries(attributes)) made.setAttribute(key, text);
    parent.append(made);
    return made;
  }

  function strip(parent, i) {
    const svg = shape(parent, "svg", { class: "strip", viewBox: "-5 0 130 14", "aria-hidden": "true" });
    const at = (steps) => (120 * share(steps)).toFixed(1);
    shape(svg, "path", { class: "scale", d: "M0 7H120" });
    if (chosen.lower !== null) shape(svg, "path", { d: `M${at(chosen.lower[i])} 7H${at(chosen.upper[i])}` });
    shape(svg, "circle", { class: "mean-prediction", cx: at(chosen.mean_prediction[i]), cy: 7, r: 3.5 });
    shape(svg, "circle", { class: "estimate", cx: at(chosen.estimate[i]), cy: 7, r: 3 });
  }

  function line(i) {
    const row = document.createElement("tr");
    if (i === total) row.className = "whole";
    cell(row, data.names[i], "th");
    cell(row, count(data.n[i]));
    cell(row, percent(chosen.mean_prediction[i]));
    cell(row, percent(chosen.estimate[i]));
    cell(row, chosen.lower === null ? "" : `${percent(chosen.lower[i])} – ${percent(chosen.upper[i])}`);
    strip(cell(row, ""), i);
    cell(row, points(chosen.estimate[i] - chosen.mean_prediction[i]));
    if (chosen.break_even !== null) cell(row, percent(chosen.break_even[i]));
    if (chosen.truth !== null) cell(row, percent(chosen.truth[i]));
    if (further) cell(row, further(i));
    cell(row, worded(data.status[i]));
    return row;
  }

  function show() {
    const pages = Math.max(1, Math.ceil(found.length / LINES));
    page = Math.min(Math.max(page, 0), pages - 1);
    body.replaceChildren(...[...pinned, ...found.slice(page * LINES, (page + 1) * LINES)].map(line));
    by("count").textContent = `${count(found.length)} of ${count(total)}`;
    by("where").textContent = `Page ${page + 1} of ${pages}`;
    by("previous").disabled = page === 0;
    by("next").disabled = page === pages - 1;
    by("pages").hidden = pages === 1;
    if (by("rest")) by("rest").hidden = found.length <= first;
  }

  function find() {
    const words = search.value.trim().toLowerCase(), flag = status.value;
    found = [];
    for (let i = 0; i < total; i++)
      if (folded[i].includes(words) && (!flag || data.status[i].split(",").includes(flag))) found.push(i);
    if (order !== null) {
      const of = value[order], sign = down ? -1 : 1;
      const compare = order === "name" ? (a, b) => of(a).localeCompare(of(b), "en", { numeric: true }) : (a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0);
      found.sort((a, b) => sign * compare(a, b) || a - b);
    }
    page = 0;
    show();
  }

  function sort(key) {
    if (order === key) down = !down;
    else [order, down] = [key, key !== "name" && key !== "status"];
    for (const head of heads) {
      if (head.dataset.key === key) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    find();
  }

  // A spreadsheet runs text that starts like a formula: such text gets an apostrophe, as in prevalence.csv.
  const quoted = (text) => `"${(/^[=+\-@\t\r\n＝＋－＠]/.test(text) ? "'" + text : text).replaceAll('"', '""')}"`;
  const number = (steps) => (steps === null ? "" : share(steps).toFixed(5));

  function csv() {
    const columns = numbers.filter((key) => chosen[key] !== null);
    const lines = [[data.unit, "class", "n", ...columns, ...(further ? [extra === "effect" ? "misfit" : extra] : []), "status"].map(quoted).join(",")];
    for (const i of found) {
      const shares = columns.map((key) => number(chosen[key][i]));
      const kind = data.unit === "group" ? chosen.class : data.names[i];
      lines.push([quoted(data.names[i]), quoted(kind), data.n[i], ...shares, ...(further ? [data[extra][i]] : []), quoted(data.status[i])].join(","));
    }
    return lines.join("\n") + "\n";
  }

  function download() {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob(["\ufeff" + csv()], { type: "text/csv" }));
    link.download = "groups.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const head of heads.filter((h) => h.dataset.key)) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(head.dataset.key));
    head.replaceChildren(button);
  }
  search.addEventListener("input", find);
  status.addEventListener("change", find);
  if (which) {
    which.addEventListener("change", () => {
      chosen = data.classes[Number(which.value)];
      by("of").textContent = chosen.class;
      find();
    });
  }
  for (const [id, other, step] of [["previous", "next", -1], ["next", "previous", 1]]) {
    by(id).addEventListener("click", () => {
      page += step;
      show();
      if (by(id).disabled) by(other).focus(); // a disabled button would lose the reader's place
    });
  }
  by("download").addEventListener("click", download);
  addEventListener("beforeprint", () => body.replaceChildren(...[...pinned, ...found.slice(0, PRINTED)].map(line)));
  addEventListener("afterprint", show);
  by("controls").hidden = false;
  find();
  document.documentElement.dataset.ready = "yes";
})();
