// Takes the parts of the page that changed from the server, and copies commands. The page is whole without it.
"use strict";

const main = document.getElementById("main");
const link = document.getElementById("link");

function told(text, off) {
  if (link.textContent !== text) link.textContent = text;
  link.classList.toggle("off", off);
}

function showCopy(root) {
  if (!navigator.clipboard) return;
  for (const button of root.querySelectorAll("button.copy")) button.hidden = false;
}

// A part is replaced as a whole: what is opened, scrolled or in focus there stays so.
function replace(id, html) {
  const part = document.getElementById(id);
  if (!part) return;
  const chosen = window.getSelection();
  if (chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode)) return "later";
  const opened = [...part.querySelectorAll("details[open]")].map((one) => one.id);
  const scrolled = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  const reachable = "a, button, summary, .scroll";
  const focused = [...part.querySelectorAll(reachable)].indexOf(document.activeElement);
  part.innerHTML = html;
  showCopy(part);
  for (const one of opened) document.getElementById(one)?.setAttribute("open", "");
  part.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = scrolled[at] ?? 0; });
  if (focused >= 0) part.querySelectorAll(reachable)[focused]?.focus({ preventScroll: true });
}

const held = new Map();

function take(parts) {
  for (const [id, html] of Object.entries(parts)) held.set(id, html);
  for (const [id, html] of [...held]) if (replace(id, html) !== "later") held.delete(id);
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Not copied";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

document.addEventListener("selectionchange", () => { if (held.size) take({}); });

showCopy(document);
if (main.dataset.live) {
  const stream = new EventSource(main.dataset.live);
  stream.addEventListener("parts", (event) => {
    take(JSON.parse(event.data));
    told("Live", false);
  });
  stream.addEventListener("problem", (event) => {
    told(`The status cannot be read: ${JSON.parse(event.data)}. What is shown is older: see "As of".`, true);
  });
  stream.addEventListener("error", () => {
    const closed = stream.readyState === EventSource.CLOSED;
    told(closed ? "Not live: reload the page" : "Not live: connecting again. What is shown is older: see \"As of\".", true);
  });
}
if (main.dataset.reload) setTimeout(() => location.reload(), 1000 * Number(main.dataset.reload));
