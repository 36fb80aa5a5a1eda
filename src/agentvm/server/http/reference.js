// Filters the page as you type: each word must occur in an operation or a schema. Without scripts the page is whole.
const box = document.getElementById("search");
const found = document.getElementById("found");
const articles = [...document.querySelectorAll("article")].map((node) => ({ node, text: node.textContent.toLowerCase() }));
const sections = [...document.querySelectorAll("main section")];
const groups = [...document.querySelectorAll("nav details")];

function filter() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const { node, text } of articles) {
    node.hidden = !words.every((word) => text.includes(word));
    count += node.hidden ? 0 : 1;
  }
  for (const section of sections) section.hidden = !section.querySelector("article:not([hidden])");
  for (const group of groups) {
    const links = [...group.querySelectorAll("li[data-of]")];
    for (const link of links) link.hidden = document.getElementById(link.dataset.of).hidden;
    group.hidden = links.every((link) => link.hidden);
    group.open = words.length > 0 && !group.hidden;
  }
  found.textContent = words.length ? `${count} found` : "";
}

document.getElementById("searching").hidden = false;
box.addEventListener("input", filter);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) {
    event.preventDefault();
    box.focus();
  }
});
