"use strict";
// Puts in place what has changed since; what has not is left alone, with its scroll and focus.
async function renew() {
  if (document.hidden) return;
  let fresh;
  try {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) return;
    fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return; // nobody serves any more: what was said last stays
  }
  for (const part of ["header", "#found", "#figures"]) {
    const old = document.querySelector(part);
    const now = fresh.querySelector(part);
    if (old && now && old.innerHTML !== now.innerHTML) {
      old.className = now.className;
      old.replaceChildren(...now.childNodes);
    }
  }
}
setInterval(renew, Number(document.body.dataset.againMs));
