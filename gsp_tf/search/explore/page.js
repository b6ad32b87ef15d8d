// What is asked of the page; the answers are HTML in which the server has escaped every text.
"use strict";

const search = document.getElementById("search");
const found = document.getElementById("found");
const browser = document.getElementById("browser");
const drop = document.querySelector(".drop");
const where = document.getElementById("where");
const tabs = [...document.querySelectorAll("[role=tab]")];
const latest = new Map();

function tell(place, text) {
  const notice = document.createElement("p");
  notice.className = "notice";
  notice.textContent = text;
  place.replaceChildren(notice);
}

// Shows an answer in its place; code 202 says how far it is. Of several questions the last counts.
async function ask(path, place, body) {
  const turn = (latest.get(place) ?? 0) + 1;
  latest.set(place, turn);
  place.ariaBusy = "true";
  let status = 0, text = "The page does not answer; is gsp-tf explore still running?";
  do {
    try {
      const answer = await fetch(path, {method: "POST", body});
      [text, status] = [await answer.text(), answer.status];
    } catch { status = 0; }
    if (latest.get(place) !== turn) return;
    if (status === 200 || status === 202) place.innerHTML = text;
    else tell(place, text);
  } while (status === 202);
  place.ariaBusy = "false";
}

// The path of a search, with the condition on the images to find.
function searching(path, name = "") {
  const asked = new URLSearchParams({name, where: where?.value ?? ""});
  return `${path}?${asked}`;
}

function searchFor(file) {
  if (!file) return;
  tabs[0].click();
  if (file.size > Number(search.dataset.maxBytes)) {
    latest.set(found, (latest.get(found) ?? 0) + 1);
    found.ariaBusy = "false";
    tell(found, `${file.name}: ${search.dataset.tooLarge}`);
  } else {
    ask(searching("search", file.name), found, file);
  }
}

drop.querySelector("input").addEventListener("change", (event) => {
  searchFor(event.target.files[0]);
});
document.addEventListener("paste", (event) => searchFor(event.clipboardData.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    drop.classList.toggle("over", kind === "dragover");
    if (kind === "drop") searchFor(event.dataTransfer.files[0]);
  });
}
for (const example of document.querySelectorAll("[data-example]")) {
  example.addEventListener("click", () => {
    ask(searching(`examples/${example.dataset.example}`), found);
  });
}
for (const tab of tabs) {
  tab.addEventListener("click", () => {
    for (const other of tabs) {
      other.ariaSelected = String(other === tab);
      document.getElementById(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
    if (tab.getAttribute("aria-controls") === "prototypes" && browser && !latest.has(browser)) {
      ask("prototypes", browser);
    }
  });
}
browser?.addEventListener("change", (event) => {
  ask(`prototypes/${event.target.value}`, document.getElementById("patches"));
});
