export async function show(main, params, {el, api, table, format}) {
  const told = await api("/api/runs");
  main.append(el("h1", {}, "Runs"), table([{head: "layer", cell: r => r.layer}, {head: "state", cell: r => r.state}, {head: "seen", cell: r => format.ago(r.last, told.now)}], told.runs));
  return () => {};
}
