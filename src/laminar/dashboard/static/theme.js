// Before anything is drawn: the theme that was chosen here, or the system's. A classic script, so that no frame is of the wrong colour.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("laminar-theme"); } catch { /* no storage: the system's */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
