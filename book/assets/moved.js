// A section that has moved left its anchor here, with its new address (pages/moved.py).
function follow() {
  const left = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (left?.dataset.moved) location.replace(left.dataset.moved);
}
follow();
addEventListener("hashchange", follow);
