// What is wrong with the page that stands here, as a list of sentences.
(() => {
  const LEAST = 12, SLACK = 0.5;
  const found = [];
  const name = (svg) => svg.querySelector('title')?.textContent ?? 'a chart without a title';
  const seen = (box) => box.width > 0 && box.height > 0;
  const meet = (a, b) =>
    a.left < b.right - SLACK && b.left < a.right - SLACK && a.top < b.bottom - SLACK && b.top < a.bottom - SLACK;

  const charts = [...document.querySelectorAll('svg')];
  if (charts.length === 0) found.push('there is no chart');
  for (const svg of charts) {
    if (svg.getAttribute('role') !== 'img' || !svg.querySelector('title') || !svg.querySelector('desc'))
      found.push(`${name(svg)}: it is not described`);
    const frame = svg.getBoundingClientRect();
    const marks = [...svg.querySelectorAll('.mark')].filter((mark) => seen(mark.getBoundingClientRect()));
    if (marks.length === 0) found.push(`${name(svg)}: nothing is drawn in it`);
    const scale = frame.width / svg.viewBox.baseVal.width;
    const labels = [...svg.querySelectorAll('text')].map((text) => ({ text, box: text.getBoundingClientRect() }));
    for (const { text, box } of labels) {
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      if (size < LEAST) found.push(`${name(svg)}: "${text.textContent}" is ${size.toFixed(1)} px high`);
      if (box.left < frame.left - 2 || box.right > frame.right + 2 || box.top < frame.top - 2 || box.bottom > frame.bottom + 2)
        found.push(`${name(svg)}: "${text.textContent}" is outside of it`);
    }
    for (let i = 0; i < labels.length; i++)
      for (let j = i + 1; j < labels.length; j++)
        if (meet(labels[i].box, labels[j].box))
          found.push(`${name(svg)}: "${labels[i].text.textContent}" lies on "${labels[j].text.textContent}"`);
  }

  const small = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const holder = node.parentElement;
    if (!node.data.trim() || holder.closest('svg, script, style') || !holder.checkVisibility()) continue;
    const size = parseFloat(getComputedStyle(holder).fontSize);
    if (size < LEAST) small.add(`<${holder.localName}> "${node.data.trim().slice(0, 40)}" is ${size.toFixed(1)} px high`);
  }
  found.push(...small);

  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth)
    found.push(`the page is ${root.scrollWidth} px wide, its window ${root.clientWidth}`);
  for (const table of document.querySelectorAll('table')) {
    const what = table.caption?.textContent ?? 'a table without a caption';
    if (!table.caption) found.push(what);
    if (table.querySelector('th:not([scope])')) found.push(`${what}: a head without a scope`);
    const region = table.closest('[role=region]');
    if (region?.tabIndex !== 0 || !region.getAttribute('aria-label')) found.push(`${what}: no key scrolls it`);
  }
  const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
  if (new Set(ids).size !== ids.length) found.push('an id stands twice');
  for (const link of document.querySelectorAll('a'))
    if (!document.getElementById(decodeURIComponent(link.hash.slice(1)))) found.push(`${link.getAttribute('href')} leads nowhere`);
  return found;
})()
