// Before anything is drawn: the colours that were chosen here before, else the system's.
(function () {
  let chosen = null;
  try { chosen = localStorage.getItem("semcep-theme"); } catch { /* no storage: the system's */ }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
})();
