// Comfort for the docs: each page works without it.
"use strict";

for (const one of document.querySelectorAll("[data-script]")) one.hidden = false;

// Ctrl-K puts the cursor into the search.
document.addEventListener("keydown", (event) => {
  if (event.key !== "k" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  document.getElementById("find").focus();
});

// <button data-copy="id">: copies the code that is shown.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(source.innerText.trim());
  button.querySelector("[role=status]").textContent = ", copied";
});

// The language that was chosen is that of all samples, also on the next page.
const LANGUAGE = "docs-language";
const tabs = document.querySelectorAll(".samples-head input");
function choose(language) {
  for (const tab of tabs) if (tab.value === language) tab.checked = true;
}
document.addEventListener("change", (event) => {
  if (!event.target.matches(".samples-head input")) return;
  const before = event.target.parentElement.getBoundingClientRect().top;
  choose(event.target.value);
  scrollBy(0, event.target.parentElement.getBoundingClientRect().top - before);
  try {
    localStorage.setItem(LANGUAGE, event.target.value);
  } catch {}
});
try {
  choose(localStorage.getItem(LANGUAGE));
} catch {}

// The contents mark the section that is read.
const links = [...document.querySelectorAll(".toc a")];
const reading = new IntersectionObserver(
  (entries) => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting)
        for (const link of links)
          if (link.hash === `#${target.id}`) link.setAttribute("aria-current", "true");
          else link.removeAttribute("aria-current");
  },
  { rootMargin: "-10% 0px -70%" },
);
for (const link of links) {
  const heading = document.getElementById(decodeURIComponent(link.hash.slice(1)));
  if (heading) reading.observe(heading);
}

// The list of operations follows the filter; without a script the form does.
const filter = document.getElementById("filter");
filter?.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  for (const group of document.querySelectorAll(".side .groups > li")) {
    for (const item of group.querySelectorAll("li")) {
      const text = `${item.textContent} ${item.firstElementChild.dataset.path}`.toLowerCase();
      item.hidden = !words.every((word) => text.includes(word));
    }
    group.hidden = !group.querySelector("li:not([hidden])");
  }
});
