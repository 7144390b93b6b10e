export async function show(main, params, {el, api}) {
  const told = await api("/api/stack");
  main.append(el("h1", {}, told.stack ?? "no stack"));
  return () => {};
}
