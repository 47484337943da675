// What a reader sees of the report's page, as JSON for the frame around it.
(() => {
  const all = (root, what) => [...root.querySelectorAll(what)];
  const box = element => element.getBoundingClientRect();
  // How many lines an element's text has: the heights at which its words stand.
  const lines = element => {
    const tops = new Set();
    const range = document.createRange();
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      range.selectNodeContents(texts.currentNode);
      for (const rect of range.getClientRects()) tops.add(Math.round(rect.top));
    }
    return tops.size;
  };
  // Labels of an axis that lie on one another.
  const overlaps = (labels, begin, end) =>
    labels.slice(1).filter((label, i) => {
      const [one, other] = [labels[i], label].map(box).sort((a, b) => a[begin] - b[begin]);
      return other[begin] < one[end];
    }).map(label => label.textContent);
  const figure = element => {
    const texts = all(element, 'svg:not(.key) text').map(box);
    return {
      title: element.querySelector('h3').textContent,
      series: all(element, 'g > title').map(title => title.textContent),
      legend: all(element, '.legend li').map(line => line.textContent.trim()),
      note: all(element, 'p').map(line => line.textContent).join(' '),
      ticks: all(element, 'text.y').map(tick => tick.textContent),
      lines: all(element, 'svg:not(.key) polyline').length,
      raw: all(element, 'polyline.raw').length,
      letters: Math.min(...texts.map(text => text.height)),
      inside: texts.every(text => text.left >= 0 && text.right <= innerWidth),
      overlaps: [...overlaps(all(element, 'text.y'), 'top', 'bottom'),
                 ...overlaps(all(element, 'text.x:not(.name)'), 'left', 'right')],
    };
  };
  const details = document.querySelector('details');
  const wide = document.querySelector('.wide');
  parent.postMessage(JSON.stringify({
    width: innerWidth,
    overflows: document.documentElement.scrollWidth > innerWidth,
    scrolls: wide.scrollWidth > wide.clientWidth,
    heads: all(document, 'thead th').map(head => head.textContent),
    names: all(document, 'tbody th').map(name => name.textContent),
    best: all(document, '.best th').map(name => name.textContent),
    broken: all(document, 'tbody th, .word, .legend li').filter(name => lines(name) > 1).map(name => name.textContent),
    folded: !details.open && box(details).top > Math.max(...all(document, 'figure').map(one => box(one).bottom)),
    definitions: all(details, 'li').length,
    figures: all(document, 'figure').map(figure),
  }), '*');
})();
