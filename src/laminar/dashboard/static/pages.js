// The pages, in the order of the navigation. One line each; `load` is asked for when the page is first shown.
export const PAGES = [
  {name: "stack", title: "Stack", key: "s", load: () => import("/static/pages/stack.js")},
  {name: "runs", title: "Runs", key: "r", load: () => import("/static/pages/runs.js")},
];
