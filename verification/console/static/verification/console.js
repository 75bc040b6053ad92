// Comfort for the console: each page works without it.
"use strict";

// htmx starts after the first frame. It is told then what was filled in before.
const htmxScript = document.createElement("script");
const early = new Set();
const remember = (event) => early.add(event.target);
document.addEventListener("input", remember);
htmxScript.src = document.currentScript.dataset.htmx;
htmxScript.onload = () => {
  document.removeEventListener("input", remember);
  for (const one of early) one.dispatchEvent(new Event("input", { bubbles: true }));
  document.activeElement?.dispatchEvent(new Event("focus"));
};
const startHtmx = () => setTimeout(() => document.head.append(htmxScript));
addEventListener("load", () => requestAnimationFrame(startHtmx));

// What only a script can do is hidden until it runs.
function showWhatNeedsScript(root) {
  for (const one of root.querySelectorAll("[data-script]")) one.hidden = false;
}

const find = document.getElementById("find");
const found = document.getElementById("found");

document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    find?.focus();
  }
  if (event.key === "Escape") {
    event.target.closest("details.menu[open]")?.firstElementChild.focus();
    closeMenus(null);
    if (found?.contains(event.target)) find.focus();
    hideFound();
  }
});

// What the search finds: arrows walk through the links, and Esc closes it.
function hideFound() {
  if (found) found.hidden = true;
}
found?.addEventListener("htmx:afterSwap", () => (found.hidden = !find.form.contains(document.activeElement)));
find?.addEventListener("focus", () => (found.hidden = found.childElementCount === 0));
find?.form.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || found.hidden) return;
  event.preventDefault();
  const stops = [find, ...found.querySelectorAll("a")];
  const next = stops.indexOf(document.activeElement) + step;
  stops[(next + stops.length) % stops.length].focus();
});
document.addEventListener("focusin", (event) => {
  closeMenus(event.target);
  if (!find?.form.contains(event.target)) hideFound();
});

function closeMenus(target) {
  for (const menu of document.querySelectorAll("details.menu[open]"))
    if (!menu.contains(target)) menu.open = false;
}
document.addEventListener("click", (event) => {
  closeMenus(event.target);
  if (!find?.form.contains(event.target)) hideFound();
});

// <button hidden data-script data-copy="id">: copies the text of an element.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.innerText.trim());
  button.querySelector("[data-done]").hidden = false;
});

// <input type="checkbox" data-all="name">: ticks all boxes of that name in its form.
document.addEventListener("change", (event) => {
  const name = event.target.dataset.all;
  if (!name) return;
  for (const one of event.target.form.elements)
    if (one.name === name) one.checked = event.target.checked;
});

showWhatNeedsScript(document);
document.addEventListener("htmx:afterSwap", (event) => {
  showWhatNeedsScript(event.target);
  keepPlace(event.target);
});

// A part that is replaced keeps the focus and what is open in it.
let place;
const nameOf = (one) =>
  [one.closest("article")?.querySelector("h3").textContent, one.localName, one.href, one.textContent].join();
document.addEventListener("htmx:beforeSwap", () => {
  const opened = document.querySelectorAll("main details[open] > summary");
  place = { focus: nameOf(document.activeElement), opened: [...opened].map(nameOf) };
});
function keepPlace(root) {
  for (const one of root.querySelectorAll("a, button, summary, [tabindex]")) {
    if (one.localName === "summary" && place.opened.includes(nameOf(one))) one.parentElement.open = true;
    if (document.activeElement === document.body && nameOf(one) === place.focus) one.focus({ preventScroll: true });
  }
}

// The tab of the page is in sight, also where the style sheet's rule for it is unknown.
if (!CSS.supports("scroll-initial-target", "nearest"))
  for (const tab of document.querySelectorAll(".tabs [aria-current]"))
    tab.parentElement.scrollLeft = tab.offsetLeft + tab.offsetWidth - tab.parentElement.offsetWidth;
