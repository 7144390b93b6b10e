// The pages, in the order of the navigation. One line each; `load` is asked for when the page is first shown.
export const PAGES = [
  {name: "stack", title: "Stack", key: "s", load: () => import("/static/pages/stack.js")},
  {name: "runs", title: "Runs", key: "r", load: () => import("/static/pages/runs.js")},
  {name: "compare", title: "Compare", key: "c", load: () => import("/static/pages/compare.js")},
  {name: "plan", title: "Plan", key: "p", load: () => import("/static/pages/plan.js")},
  {name: "experiments", title: "Experiments", key: "e", load: () => import("/static/pages/experiments.js")},
  {name: "grid", title: "Grid", key: "d", load: () => import("/static/pages/grid.js")},
  {name: "kernels", title: "Kernels", key: "k", load: () => import("/static/pages/kernels.js")},
];
