"use strict";
(function () {
  // what is known of a point, beside it: under the pointer, or after a tap
  const tip = document.getElementById("tip");

  function show(event) {
    const mark = event.target.closest ? event.target.closest("[data-t]") : null;
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.t;
    const point = mark.getBoundingClientRect(), page = document.documentElement;
    const left = Math.min(point.right + 8, page.clientWidth - tip.offsetWidth - 8);
    const above = point.top - tip.offsetHeight - 8;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 0 ? above : point.bottom + 8) + "px";
  }

  document.addEventListener("pointerover", show);
  document.addEventListener("click", show);
  document.addEventListener("scroll", function () { tip.hidden = true; }, { passive: true });
})();
