// The live part of the page: it takes over the table that the server rendered,
// and adds plots, workers, stacks and controls. Once a second a Snapshot comes
// in by server-sent events (wire.go has its meaning); it is recorded for every
// pool, and drawn if someone can see it. Names, stacks and messages are put in
// as text only.
(() => {
'use strict';

const $ = id => document.getElementById(id);
const el = (tag, cls, text) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined) e.textContent = text;
  return e;
};
// Writing an unchanged text would still cost a layout, or an announcement.
const setText = (e, s) => { if (e._text !== s) e.textContent = e._text = s; };
const setClass = (e, s) => { if (e._class !== s) e.className = e._class = s; };
const setAttr = (e, k, v) => { if (e.getAttribute(k) !== String(v)) e.setAttribute(k, v); };

// ---- figures as text, as the server's template has them

const whole = new Intl.NumberFormat('en-US', {maximumFractionDigits: 0});
const count = n => whole.format(n);
const three = v => v < 9.995 ? v.toFixed(2) : v < 99.95 ? v.toFixed(1) : v.toFixed(0);
// Where there is no room for all digits.
const short = n => {
  if (n < 999999.5) return Number.isInteger(n) || n >= 9.95 ? count(n) : n.toFixed(1);
  for (const [d, unit] of [[1e6, 'M'], [1e9, 'G']]) if (n / d < 999.5) return three(n / d) + unit;
  return three(n / 1e12) + 'T';
};
// Of several in one cell.
const tiny = n => n < 99999.5 || n >= 999500 ? short(n) : Math.round(n / 1000) + 'k';
const none = '–';
const rate = v => !Number.isFinite(v) ? none : v > 0 && v < 0.05 ? '<0.1' : short(v);
const secs = s => {
  if (!Number.isFinite(s)) return none;
  if (s <= 0) return '0s';
  if (s < 999.5e-9) return three(s * 1e9) + 'ns';
  if (s < 999.5e-6) return three(s * 1e6) + 'µs';
  if (s < 0.9995) return three(s * 1e3) + 'ms';
  return s < 59.95 ? three(s) + 's' : age(s);
};
// How long something has been going on: no more digits than one wants to see change.
const age = s => {
  if (s < 1) return secs(s);
  if (s < 9.95 && !Number.isInteger(s)) return s.toFixed(1) + 's';
  s = Math.round(s);
  if (s < 60) return s + 's';
  const two = n => String(n).padStart(2, '0');
  if (s < 3600) return Math.floor(s / 60) + 'm' + two(s % 60) + 's';
  return Math.floor(s / 3600) + 'h' + two(Math.floor(s % 3600 / 60)) + 'm';
};
const some = (n, one, many = one + 's') => count(n) + ' ' + (n === 1 ? one : many);
const clock = t => new Date(t * 1000).toLocaleTimeString('en-GB');

// ---- what is kept

const CAP = 640;          // slots of the rings: ten minutes, and some gaps
const WINDOW = 600;       // seconds that are plotted
const MAX_RINGS = 2000;   // pools with a history, at 36 kB each
const GAP = 3.5;          // seconds without a snapshot that show as a gap
const IN = 0, OUT = 1, QUEUED = 2, RUNNING = 3, IDLE = 4, LIMIT = 5,
  WAIT50 = 6, WAIT99 = 7, RUN50 = 8, RUN99 = 9, REJECT = 10, DROP = 11, FAIL = 12, BELOW = 13, FIELDS = 14;
// The same in a point of history.json, in which a time of 0 is none.
const KEPT = ['submit_rate', 'complete_rate', 'queued', 'running', 'idle', 'max_workers',
  'wait_p50', 'wait_p99', 'run_p50', 'run_p99', 'reject_rate', 'drop_rate', 'fail_rate', 'below_rate'];

// All pools share one time axis: slot i%CAP of times is slot i%CAP of each ring.
const times = new Float64Array(CAP);
const gaps = new Uint8Array(CAP);
let taken = 0; // slots written so far
let rings = 0;

let latest = null;     // the Snapshot that came last
let arrived = 0;       // when, by performance.now
let pools = new Map(); // by id

class Pool {
  constructor(row, parent) {
    this.id = row.id;
    this.row = row;
    this.parent = parent;
    this.depth = parent ? parent.depth + 1 : 0;
    this.path = (parent ? parent.path + ' / ' : '') + (row.name || '(no name)');
    this.lower = this.path.toLowerCase();
    this.href = (parent ? parent.href + '/' : '#pool=') + encodeURIComponent(row.name);
    this.ring = null;
    this.past = [];     // points that the server kept
    this.pastOf = 0;    // the connection that they were asked for in
    this.measured = [null, null]; // the last p99 of wait and run, and when
    this.found = [];    // what is wrong, worst first
    this.heldUntil = 0;
    // What is drawn. It stays behind the above while the view is frozen.
    this.seen = row;
    this.seenFound = this.found;
  }
}

function forget() {
  taken = rings = 0;
  pools = new Map();
}

// record takes a snapshot into pools and their rings.
function record(snap) {
  let step = taken ? snap.time - times[(taken - 1) % CAP] : 0;
  if (step < -GAP) { // the clock was set back: the axis would run backwards
    forget();
    step = 0;
  }
  const next = new Map();
  for (const row of snap.pools) {
    const parent = next.get(row.parent);
    let p = pools.get(row.id);
    if (!p || p.row.name !== row.name || p.parent !== parent) p = new Pool(row, parent);
    next.set(row.id, p);
    note(p, row, snap);
    p.row = row;
  }
  for (const [id, p] of pools) if (next.get(id) !== p && p.ring) rings--;
  pools = next;
  if (taken && step <= 0) return; // the same one again, after reconnecting
  if (step > GAP) push(times[(taken - 1) % CAP] + 1, true, false);
  push(snap.time, false, snap.interval > 0);
}

function push(t, gap, rated) {
  const at = taken++ % CAP;
  times[at] = t;
  gaps[at] = gap ? 1 : 0;
  for (const p of pools.values()) {
    if (!p.ring) {
      if (rings >= MAX_RINGS && p.href !== chosen) continue;
      p.ring = new Float32Array(CAP * FIELDS).fill(NaN);
      rings++;
    }
    const o = at * FIELDS, h = p.ring, r = p.row;
    if (gap) {
      h.fill(NaN, o, o + FIELDS);
      continue;
    }
    h[o + IN] = rated ? r.submit_rate : NaN;
    h[o + OUT] = rated ? r.complete_rate : NaN;
    h[o + REJECT] = rated ? r.reject_rate : NaN;
    h[o + DROP] = rated ? r.drop_rate : NaN;
    h[o + FAIL] = rated ? r.fail_rate : NaN;
    h[o + BELOW] = rated ? r.below.complete_rate : NaN;
    h[o + QUEUED] = r.queued;
    h[o + RUNNING] = r.running;
    h[o + IDLE] = r.idle;
    h[o + LIMIT] = r.max_workers;
    h[o + WAIT50] = r.wait.count ? r.wait.p50 : NaN;
    h[o + WAIT99] = r.wait.count ? r.wait.p99 : NaN;
    h[o + RUN50] = r.run.count ? r.run.p50 : NaN;
    h[o + RUN99] = r.run.count ? r.run.p99 : NaN;
  }
}

// note keeps the last p99, since with one task in 64 measured many a second has none.
function note(p, row, snap) {
  for (const [i, m] of [row.wait, row.run].entries()) {
    if (m.count) p.measured[i] = {t: snap.time, p99: m.p99};
    else if (p.measured[i] && p.measured[i].t < snap.time - 30) p.measured[i] = null;
  }
}

// ---- what is wrong: the server judges

const MARK = ['', '●', '◆', '▲']; // by level: well, worth knowing, a problem, stuck

const QUIET = new Set(['busy', 'waits', 'Draining']);

const level = found => found.length ? found[0].level : 0;

// judge holds a problem that is gone for three seconds: one that comes and goes
// with every snapshot would flicker. What someone did is seen at once.
function judge(p, before, t) {
  const found = p.row.verdicts || [];
  if (level(found) >= 2) p.heldUntil = t + 3;
  else if (level(p.found) >= 2 && t < p.heldUntil && before === p.row.state && p.found[0].label !== 'Paused') return;
  p.found = found;
}

// ---- the stream

let source = null, retry = 0, heard = 0;
let connection = '';

function connect() {
  clearTimeout(retry);
  if (source) source.close();
  heard = performance.now();
  source = new EventSource('changes');
  source.onopen = () => { connected++; };
  source.onmessage = e => {
    heard = performance.now();
    let snap;
    try {
      snap = JSON.parse(e.data);
    } catch {
      return; // cut off; the next one will do
    }
    receive(complete(snap));
  };
  source.onerror = () => {
    setConnection('reconnecting…');
    // The browser tries again by itself, unless the answer was an error.
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 1000);
  };
}

// complete is a snapshot of which only what has changed has come.
function complete(snap) {
  if (!snap.partial) return snap;
  const changed = new Map(snap.pools.map(row => [row.id, row]));
  return {...snap, pools: latest.pools.map(row => changed.has(row.id) ? {...row, ...changed.get(row.id)} : row)};
}

function receive(snap) {
  snap.pools = snap.pools || [];
  const anew = latest && snap.started !== latest.started;
  if (anew) {
    forget();
    dropStacks();
  }
  const states = new Map();
  for (const p of pools.values()) states.set(p.id, p.row.state);
  record(snap);
  for (const p of pools.values()) judge(p, states.get(p.id), snap.time);
  if (!latest) first = snap.time;
  latest = snap;
  arrived = performance.now();
  setConnection('live');
  if (anew) say('Connected again. The server was started again, so histories begin anew.');
  title();
  update();
}

function title() {
  let problems = 0;
  for (const p of pools.values()) if (level(p.found) >= 2) problems++;
  for (const q of queues) if (level(q.verdicts || []) >= 2) problems++;
  const s = (problems ? `▲ ${count(problems)} · ` : '') + 'shoal';
  if (document.title !== s) document.title = s;
}

function setConnection(s) {
  if (s !== connection) {
    if (connection === 'live') say('Connection lost, reconnecting.');
    else if (s === 'live' && connection === 'reconnecting…') say('Connected again.');
    connection = s;
  }
  showAge();
}

function showAge() {
  const s = (performance.now() - arrived) / 1000;
  setClass($('conn'), 'conn ' + (frozen ? 'held' : connection === 'live' ? 'live' : connection ? 'lost' : ''));
  setText($('conn-state'), frozen ? 'frozen' : connection || 'connecting…');
  setText($('age'), !latest ? '' : frozen ? `at ${clock(view.snap.time)}` : s < 2 ? 'updated just now' : `updated ${age(Math.floor(s))} ago`);
}

function say(s) { setText($('say'), s); }

// ---- the view

let frozen = false;
let view = null;   // {snap, list, end}: what is drawn
let chosen = '';   // the href of the pool whose details are shown
let picked = false;  // by someone, not by default
let sort = null;   // {key, down}
let reveal = false;  // scroll its row into sight, when it is there
let order = [];    // the pools of the table
let touched = -1e9; // when someone last moved about in the table

function update() {
  if (frozen && view) return;
  view = {snap: latest, list: [...pools.values()], end: taken};
  for (const p of view.list) {
    p.seen = p.row;
    p.seenFound = p.found;
  }
  if (!document.hidden) draw();
}

function draw() {
  if (!view) return;
  const s = view.snap;
  setText($('go'), s.go_version);
  setText($('procs'), count(s.gomaxprocs));
  setText($('goroutines'), count(s.goroutines));
  if (!picked) {
    // By default the worst one, and it stays until there is a worse one.
    const now = view.list.find(p => p.href === chosen);
    let worst = now || view.list[0];
    for (const p of view.list) if (level(p.seenFound) > Math.max(1, level(worst.seenFound))) worst = p;
    if (worst && worst !== now) {
      setChosen(worst.href);
      reveal = $('pools-box').scrollTop === 0;
    }
  }
  drawStrip();
  drawPools();
  drawDetail();
  pollWorkers(false);
  getPast();
  getQueues(false);
}

function drawStrip() {
  const stuck = [], bad = [];
  for (const p of view.list) {
    const l = level(p.seenFound);
    if (l === 3) stuck.push(p);
    else if (l === 2) bad.push(p);
  }
  const shown = queues.map(q => ({path: 'queue ' + q.name, href: '#queues', seenFound: q.verdicts || []}));
  const badQueues = shown.filter(q => level(q.seenFound) >= 2);
  const unknown = view.snap.queues - queues.filter(q => q.measured || q.error).length;
  const stuckQueue = badQueues.find(q => level(q.seenFound) === 3);
  const line = $('worst'), n = view.list.length;
  // Being busy is no news, unless it is all that there is to tell about a pool.
  const news = p => p.seenFound.find(f => f.level > 1 || !QUIET.has(f.label));
  const worst = stuck[0] || stuckQueue || bad[0] || badQueues[0] || [...view.list, ...shown].find(news);
  const l = worst ? level(worst.seenFound) : 0;
  setClass($('strip'), 'strip l' + l);
  const names = [n ? some(n, 'pool') : '', shown.length ? some(shown.length, 'queue') : ''].filter(Boolean).join(' and ');
  if (!worst) {
    const s = unknown > 0 ? `${n ? some(n, 'pool') + ', nothing wrong in the last minute; ' : ''}${some(unknown, 'queue')} not measured yet`
      : names ? `✓ ${names}, nothing wrong in the last minute` : 'There is no pool.';
    if (line._said !== s) line.textContent = line._said = s;
    line.removeAttribute('title');
    return;
  }
  if (line._said !== 'worst') {
    line._said = 'worst';
    line.replaceChildren(el('span', 'mark'), el('span'), el('a'), el('span'));
  }
  const [mark, sum, link, why] = line.children;
  setText(mark, MARK[l]);
  const parts = [];
  if (stuck.length) parts.push(`${count(stuck.length)} of ${some(n, 'pool')} stalled`);
  if (bad.length) parts.push(stuck.length ? `${count(bad.length)} with problems` : `${count(bad.length)} of ${some(n, 'pool')} with problems`);
  if (badQueues.length) parts.push(`${count(badQueues.length)} of ${some(queues.length, 'queue')} with problems`);
  setText(sum, l > 1 ? ` ${parts.join(', ')}. ` : ` ${names}, no problem now. `);
  setText(link, worst.path);
  setAttr(link, 'href', worst.href);
  setText(why, ': ' + news(worst).text);
  setAttr(line, 'title', why.textContent.slice(2));
}

// ---- tables of which only the visible rows exist

class Rows {
  // make gives an empty row, fill puts an item in; both may run at any time.
  constructor(box, body, columns, make, fill) {
    Object.assign(this, {box, body, make, fill});
    this.items = [];
    this.height = 27;
    this.live = new Map(); // rows by item.id
    this.free = [];
    this.head = this.pad(columns);
    this.foot = this.pad(columns);
    body.replaceChildren(this.head, this.foot);
    box.addEventListener('scroll', () => this.draw(), {passive: true});
    new ResizeObserver(() => this.draw()).observe(box);
  }

  pad(columns) {
    const tr = el('tr', 'pad'), td = el('td');
    td.colSpan = columns;
    tr.append(td);
    tr.setAttribute('aria-hidden', 'true');
    tr.hidden = true;
    return tr;
  }

  setPad(tr, px) {
    if (tr._px === px) return;
    tr._px = px;
    tr.hidden = px === 0;
    tr.firstChild.style.height = px + 'px';
  }

  set(items) {
    this.items = items;
    this.draw();
  }

  draw() {
    const n = this.items.length, h = this.height;
    const room = Math.min(200, Math.ceil(this.box.clientHeight / h) + 12);
    const from = Math.max(0, Math.min(Math.floor(this.box.scrollTop / h) - 6, n - room));
    const to = Math.min(n, from + room);
    const wanted = new Set();
    for (let i = from; i < to; i++) wanted.add(this.items[i].id);
    for (const [id, tr] of this.live) {
      if (wanted.has(id)) continue;
      this.live.delete(id);
      this.free.push(tr);
    }
    let at = this.head.nextSibling;
    for (let i = from; i < to; i++) {
      const item = this.items[i];
      let tr = this.live.get(item.id);
      if (!tr) {
        tr = this.free.pop() || this.make();
        this.live.set(item.id, tr);
      }
      if (tr === at) at = at.nextSibling;
      else this.body.insertBefore(tr, at);
      this.fill(tr, item, i);
    }
    for (const tr of this.free) tr.remove();
    this.free.length = Math.min(this.free.length, 50);
    this.setPad(this.head, from * h);
    this.setPad(this.foot, (n - to) * h);
    const first = this.head.nextSibling;
    const real = first === this.foot ? 0 : first.getBoundingClientRect().height;
    if (real && Math.abs(real - h) > 0.01) { // zoomed, or another font
      this.height = real;
      this.draw();
    }
  }

  // show scrolls as little as needed for row i to be seen.
  show(i) {
    const head = this.body.parentNode.tHead.offsetHeight;
    const top = i * this.height, room = this.box.clientHeight - head;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + room) this.box.scrollTop = top + this.height - room;
    this.draw();
  }
}

// ---- the table of pools

const SORT = {
  name: p => p.lower,
  state: p => level(p.seenFound),
  in: p => p.seen.submit_rate + p.seen.below.submit_rate,
  out: p => p.seen.complete_rate + p.seen.below.complete_rate,
  queued: p => p.seen.queued,
  blocked: p => p.seen.blocked,
  running: p => p.seen.running,
  wait: p => p.measured[0] ? p.measured[0].p99 : -1,
  run: p => p.measured[1] ? p.measured[1].p99 : -1,
  rejected: p => p.seen.rejected,
  dropped: p => p.seen.dropped,
  failed: p => p.seen.failed,
  slow: p => p.seen.slow_tasks,
  stalled: p => (p.seen.stalled >= 1 ? p.seen.stalled * 1e6 : 0) + p.seen.stalls,
};

const table = $('pools');
let poolRows = null;
let orderOf = ''; // filter and sort that order was made by

function drawPools() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean);
  const only = $('only').checked;
  const by = JSON.stringify([words, only, sort]);
  let list = view.list;
  if (words.length || only) {
    list = list.filter(p => words.every(w => p.lower.includes(w)) && (!only || level(p.seenFound) >= 2));
  }
  // A row is not moved away from under someone's hand.
  const hold = sort && by === orderOf && performance.now() - touched < 3000;
  if (sort) {
    if (hold) {
      const place = new Map(order.map((p, i) => [p.id, i]));
      list = [...list].sort((a, b) => (place.get(a.id) ?? 1e9) - (place.get(b.id) ?? 1e9));
    } else {
      const key = SORT[sort.key], sign = sort.down ? -1 : 1;
      list = [...list].sort((a, b) => {
        const x = key(a), y = key(b);
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
  }
  if (!poolRows) poolRows = new Rows($('pools-box'), table.tBodies[0], 14, makePool, fillPool); // the server's rows go
  if (by !== orderOf) $('pools-box').scrollTop = 0;
  orderOf = by;
  order = list;
  const n = view.list.length;
  setText($('shown'), list.length === n ? some(n, 'pool') : `${count(list.length)} of ${some(n, 'pool')}`);
  setAttr(table, 'aria-rowcount', list.length + 1);
  poolRows.set(list);
  showSideways();
  const i = list.findIndex(p => p.href === chosen);
  if (reveal && i >= 0) {
    reveal = false;
    poolRows.show(i);
  }
  if (i >= 0 && poolRows.live.has(list[i].id)) setAttr(table, 'aria-activedescendant', 'pool-' + list[i].id);
  else table.removeAttribute('aria-activedescendant');
}

// showSideways says that there is more at the right of the table, as long as there is.
function showSideways() {
  const box = $('pools-box');
  const more = box.scrollWidth > box.clientWidth + 2;
  $('sideways').hidden = !more;
  setClass($('sideways'), 'muted sideways' + (more && box.scrollLeft + box.clientWidth >= box.scrollWidth - 2 ? ' end' : ''));
}

function makePool() {
  const tr = el('tr'), name = el('th');
  name.scope = 'row';
  const link = el('a');
  link.tabIndex = -1; // the table has the focus; this is for the mouse and its menus
  link.append(el('span', 'up'), el('span', 'own'));
  name.append(link);
  tr.append(name);
  for (let i = 1; i < 14; i++) tr.append(el('td', 'n'));
  const queue = tr.children[4];
  queue.className = queue._class = 'n q';
  const meter = el('meter');
  meter.setAttribute('aria-hidden', 'true');
  queue.append(el('span'), meter);
  tr._cells = [...tr.children];
  return tr;
}

function fillPool(tr, p, i) {
  const r = p.seen, c = tr._cells, first = p.seenFound[0];
  const flat = sort !== null || orderOf !== '[[],false,null]';
  const rated = view.snap.interval > 0;
  const put = (k, text, zero) => {
    setText(c[k], text);
    setClass(c[k], zero ? 'n zero' : 'n');
  };
  const total = (k, n) => put(k, short(n), n === 0);
  setAttr(tr, 'id', 'pool-' + p.id);
  setAttr(tr, 'aria-rowindex', i + 2);
  setAttr(tr, 'aria-selected', p.href === chosen);
  setClass(c[0], 'name' + (flat || !p.depth ? '' : ' d' + Math.min(6, p.depth)));
  const link = c[0].firstChild;
  const own = r.name || '(no name)'; // the path, if too long, loses its parents first
  setText(link.firstChild, flat ? p.path.slice(0, -own.length) : '');
  setText(link.lastChild, own);
  setAttr(link, 'href', p.href);
  setAttr(c[0], 'title', p.path);
  setText(c[1], first && first.level ? `${MARK[first.level]} ${first.label}` : r.state);
  setClass(c[1], 'l' + level(p.seenFound));
  setAttr(c[1], 'title', p.seenFound.map(f => f.text).join('; '));
  const flow = (k, own, below) => { // with what sub-pools do, which else looks as if nothing is done
    put(k, !rated ? none : below ? 'Σ ' + rate(own + below) : rate(own), !(own + below));
    if (below) setAttr(c[k], 'title', `${rate(own)} of its own, ${rate(below)} of its sub-pools`);
    else c[k].removeAttribute('title');
  };
  flow(2, r.submit_rate, r.below.submit_rate);
  flow(3, r.complete_rate, r.below.complete_rate);
  const bounded = r.queue_capacity > 0;
  const [text, meter] = c[4].children;
  setText(text, `${tiny(r.queued)} / ${r.queue_capacity < 0 ? 'unbounded' : tiny(r.queue_capacity)}`);
  meter.hidden = !bounded;
  if (bounded) {
    if (meter.max !== r.queue_capacity) meter.max = r.queue_capacity;
    if (meter.value !== r.queued) meter.value = r.queued;
  }
  setClass(c[4], 'n q' + (bounded && r.queued >= r.queue_capacity ? ' full' : ''));
  total(5, r.blocked);
  put(6, `${tiny(r.running)} / ${tiny(r.idle)} / ${r.max_workers < 0 ? 'unbounded' : tiny(r.max_workers)}`);
  put(7, p.measured[0] ? secs(p.measured[0].p99) : none, !p.measured[0]);
  put(8, p.measured[1] ? secs(p.measured[1].p99) : none, !p.measured[1]);
  total(9, r.rejected);
  total(10, r.dropped);
  total(11, r.failed);
  total(12, r.slow_tasks);
  // Between two tasks of a busy pool, too, nothing ends for a moment.
  const stalled = r.stalled >= 1;
  put(13, stalled ? '≥ ' + age(r.stalled) : r.stalls ? short(r.stalls) + '×' : none, !stalled && !r.stalls);
}

function initPools() {
  table.setAttribute('role', 'grid');
  table.tabIndex = 0; // instead of its box
  $('pools-box').removeAttribute('tabindex');
  for (const th of table.tHead.rows[0].cells) {
    const button = el('button', '', th.textContent);
    button.type = 'button';
    button.addEventListener('click', () => {
      const key = th.dataset.sort, down = key !== 'name';
      if (!sort || sort.key !== key) sort = {key, down};
      else sort = sort.down === down ? {key, down: !down} : null; // the third click: as they came
      for (const h of table.tHead.rows[0].cells) {
        if (sort && h.dataset.sort === sort.key) h.setAttribute('aria-sort', sort.down ? 'descending' : 'ascending');
        else h.removeAttribute('aria-sort');
      }
      touched = -1e9;
      if (view) drawPools();
    });
    th.replaceChildren(button);
  }
  table.addEventListener('click', e => {
    const tr = e.target.closest('tbody tr');
    const link = tr && tr.querySelector('a');
    if (!link || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    table.focus({preventScroll: true});
    choose(link.getAttribute('href'), true);
    if (matchMedia('(max-width: 640px)').matches) $('detail').scrollIntoView();
  });
  table.addEventListener('keydown', e => {
    if (e.target !== table || !view || e.ctrlKey || e.metaKey || e.altKey) return;
    touched = performance.now();
    const page = Math.max(1, Math.floor($('pools-box').clientHeight / poolRows.height) - 2);
    const by = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[e.key];
    if (by !== undefined && order.length) {
      e.preventDefault();
      const now = order.findIndex(p => p.href === chosen);
      const i = now < 0 && Number.isFinite(by) ? 0 : Math.max(0, Math.min(order.length - 1, now + by));
      choose(order[i].href, false);
      poolRows.show(i);
      table.setAttribute('aria-activedescendant', 'pool-' + order[i].id);
    } else if (e.key === 'Enter') {
      e.preventDefault();
      $('d-name').focus();
    }
  });
  $('pools-box').addEventListener('scroll', showSideways, {passive: true});
  new ResizeObserver(showSideways).observe($('pools-box'));
  table.addEventListener('pointermove', () => { touched = performance.now(); }, {passive: true});
  $('filter').addEventListener('input', () => { if (view) drawPools(); });
  $('filter').addEventListener('keydown', e => {
    if (e.key === 'Enter' || e.key === 'ArrowDown') {
      e.preventDefault();
      table.focus();
      if (order.length && !order.some(p => p.href === chosen)) choose(order[0].href, false);
    }
  });
  $('only').addEventListener('change', () => { if (view) drawPools(); });
}

// ---- choosing a pool

// The fragment is #pool=NAME/NAME, each name escaped, and may bring a token.
function readHash() {
  let href = '';
  const rest = [];
  let token = false;
  const decode = s => {
    try {
      return decodeURIComponent(s);
    } catch {
      return s;
    }
  };
  for (const part of location.hash.slice(1).split('&')) {
    if (part.startsWith('token=')) {
      token = true;
      setToken(decode(part.slice(6)));
      continue;
    }
    if (part.startsWith('pool=')) href = '#pool=' + part.slice(5).split('/').map(s => encodeURIComponent(decode(s))).join('/');
    if (part) rest.push(part);
  }
  if (token) history.replaceState(null, '', rest.length ? '#' + rest.join('&') : location.pathname + location.search);
  if (href) {
    picked = reveal = true;
    setChosen(href);
    if (view) draw();
  }
}

function choose(href, remember) {
  picked = true;
  if (location.hash !== href) history[remember ? 'pushState' : 'replaceState'](null, '', href);
  if (href === chosen) return;
  setChosen(href);
  draw();
}

function setChosen(href) {
  if (href === chosen) return;
  chosen = href;
  dropStacks();
  workers = null;
  workerLimit = 100;
  $('w-box').scrollTop = 0;
  sized = '';
  controlSaid('', false);
  spoken = null;
  pollAbort.abort();
  polling = false;
}

const current = () => view && view.list.find(p => p.href === chosen);

// ---- the chosen pool

let spoken = null; // the problem that was read out

function drawDetail() {
  const p = current();
  $('detail').hidden = !chosen;
  if (!chosen) return;
  const controls = $('controls');
  if (controls) controls.hidden = !view.snap.controls || !p;
  $('s-get').disabled = !p || stacksBusy;
  const panels = document.querySelector('.panels');
  panels.hidden = $('plots').hidden = $('zoom').hidden = !p;
  if (!p) {
    const name = chosen.slice(6).split('/').map(decodeURIComponent).join(' / ');
    setText($('d-name'), name);
    setText($('d-state'), 'not there');
    setClass($('d-state'), 'badge');
    setFound($('d-why'), [{level: 1, text: 'There is no pool of this name now. It will be shown when there is one.'}]);
    $('d-stacks').hidden = true;
    return;
  }
  const r = p.seen, found = p.seenFound;
  setText($('d-name'), p.path);
  setText($('d-state'), found.length && level(found) > 1 ? `${MARK[found[0].level]} ${found[0].label}` : r.state);
  setClass($('d-state'), 'badge l' + level(found));
  setFound($('d-why'), found.length ? found : [{level: 0, text: well(r)}], below(r));
  $('d-stacks').hidden = !found.some(f => f.stacks);
  const problem = level(found) > 1 ? found[0].label.replace(/ \d.*/, '') : '';
  if (spoken !== null && spoken !== problem) say(`${p.path}: ${problem || 'no problem any more'}`);
  spoken = problem;
  drawControls(r);
  drawPlots(p);
  drawNumbers(r);
  drawSources(r);
}

function well(r) {
  if (r.state === 'Closed') return 'closed: it takes no tasks and has no workers';
  return r.queued || r.running || r.completed ? '✓ nothing wrong with its tasks in the last minute' : '✓ it has had no tasks';
}

// below says what goes on in sub-pools: the figures of a pool are its own tasks' alone.
function below(r) {
  const b = r.below;
  if (!b.pools) return [];
  const own = r.running - b.running;
  return [{level: 0, text: `in its ${some(b.pools, 'sub-pool')}: ${rate(b.submit_rate)} tasks/s in, ${rate(b.complete_rate)} out, ${count(b.queued)} queued; ` +
    (b.running ? `${count(b.running)} of its workers in their tasks, ${count(Math.max(0, own))} in its own` : 'no worker in their tasks')}];
}

// setFound writes verdicts, and what else there is to say.
function setFound(e, verdicts, more = []) {
  const found = [...verdicts, ...more];
  const key = found.map(f => f.level + f.text).join();
  if (e._said === key) return;
  e._said = key;
  e.replaceChildren();
  for (const [i, f] of found.entries()) {
    const part = el('span', 'l' + f.level);
    if (MARK[f.level]) part.append(el('span', 'mark', MARK[f.level]), ' ');
    part.append(f.text + (f.level === 3 && f.stacks ? ' — look at the oldest tasks below' : ''));
    if (i < found.length - 1) part.append(el('span', 'visually-hidden', '; ')); // each has a line of its own
    e.append(part);
  }
}

const totals = new Map();

function drawNumbers(r) {
  const put = (k, v) => {
    let dd = totals.get(k);
    if (!dd) {
      const div = el('div');
      dd = el('dd');
      div.append(el('dt', '', k), dd);
      $('totals').append(div);
      totals.set(k, dd);
    }
    setText(dd, v);
  };
  put('submitted', count(r.submitted));
  put('completed', count(r.completed));
  put('failed', count(r.failed));
  put('rejected', count(r.rejected));
  put('dropped', count(r.dropped));
  put('canceled', count(r.canceled));
  put('spawned', count(r.spawned));
  put('in flight now', count(r.in_flight));
  put('slow tasks', count(r.slow_tasks));
  put('stalls', count(r.stalls));
  put('workers now', `${count(r.workers)} (${count(r.min_workers)} to ${r.max_workers < 0 ? 'unbounded' : count(r.max_workers)})`);
  put('most workers', count(r.peak_workers));
  const rows = [['wait, last second', r.wait], ['wait, in all', r.wait_total], ['run, last second', r.run], ['run, in all', r.run_total]];
  const body = $('times');
  for (const [i, [name, d]] of rows.entries()) {
    if (!body.rows[i]) {
      const tr = el('tr'), th = el('th', 'l', name);
      th.scope = 'row';
      tr.append(th);
      for (let k = 0; k < 5; k++) tr.append(el('td'));
      body.append(tr);
    }
    const c = body.rows[i].cells, has = d.count > 0;
    setText(c[1], has ? secs(d.mean) : none);
    setText(c[2], has ? secs(d.p50) : none);
    setText(c[3], has ? secs(d.p99) : none);
    setText(c[4], has && i % 2 ? secs(d.max) : none); // it is never of the last second
    setText(c[5], count(d.count));
  }
}

function drawSources(r) {
  const list = r.sources || [], body = $('q-body');
  $('q').hidden = !list.length;
  while (body.rows.length > 2 * list.length) body.deleteRow(-1);
  for (const [i, q] of list.entries()) {
    if (!body.rows[2 * i]) {
      const tr = el('tr'), th = el('th', 'l'), tale = el('tr', 'tale'), td = el('td');
      th.scope = 'row';
      tr.append(th);
      for (let k = 0; k < 9; k++) tr.append(el('td'));
      td.colSpan = 10;
      tale.append(td);
      body.append(tr, tale);
    }
    const cells = body.rows[2 * i].cells;
    const texts = [q.name, secs(q.lease), count(q.held), count(q.running), count(q.acked), count(q.retried), count(q.dead),
      count(q.leases_lost), count(q.timed_out), count(q.pull_errors + q.untold)];
    for (const [k, text] of texts.entries()) setText(cells[k], text);
    const tale = [], o = q.oldest, f = q.last_failure, ago = t => `${age(Math.max(0, Math.floor(view.snap.time - t)))}`;
    if (o) tale.push(`${job(o)} has run for ${ago(o.at)}`);
    if (f) tale.push(`${job(f)} failed ${ago(f.at)} ago: ${f.error}`);
    if (q.last_error) tale.push(`the queue failed ${ago(q.last_error_at)} ago: ${q.last_error}`);
    body.rows[2 * i + 1].hidden = !tale.length;
    setText(body.rows[2 * i + 1].cells[0], tale.join('; '));
  }
}

const job = j => `job ${j.id}${j.type ? ' of type ' + j.type : ''}`;

// ---- durable queues, which are asked for only while somebody looks

const QUEUES_EVERY = 1900; // ms, so that it is every other second; the server measures no more often
let queues = [];
let askedQueues = -1e9;
let askingQueues = false;

async function getQueues(force) {
  if (!view.snap.queues) {
    if (queues.length) drawQueues([]);
    return;
  }
  if (askingQueues || document.hidden || frozen || (!force && performance.now() - askedQueues < QUEUES_EVERY)) return;
  askingQueues = true;
  askedQueues = performance.now();
  try {
    const resp = await fetch('queues.json', {cache: 'no-store'});
    if (!resp.ok) throw new Error((await resp.text()).trim() || resp.statusText);
    const list = (await resp.json()).queues || [];
    if (frozen) return;
    setText($('qs-said'), '');
    drawQueues(list);
  } catch (err) {
    if (connection === 'live') setText($('qs-said'), `not known: ${err.message}`);
  } finally {
    askingQueues = false;
  }
}

function drawQueues(list) {
  queues = list;
  const ul = $('qs');
  $('queues').hidden = !list.length;
  if (!ul._live) {
    ul._live = true;
    ul.replaceChildren();
  }
  while (ul.children.length > list.length) ul.lastChild.remove();
  for (const [i, q] of list.entries()) {
    if (!ul.children[i]) ul.append(makeQueue());
    fillQueue(ul.children[i], q);
  }
  drawStrip();
  title();
  if (dead) {
    const q = list.find(q => q.name === dead.queue);
    if (!q) closeDead();
    else if (q.dead !== dead.known && !$('dead-list').contains(document.activeElement)) {
      dead.known = q.dead;
      listDead();
    }
  }
}

function makeQueue() {
  const li = el('li'), dl = el('dl'), button = el('button', '', 'Dead letters');
  button.type = 'button';
  button.hidden = true;
  button.addEventListener('click', () => openDead(li._queue));
  for (const name of ['ready', 'delayed', 'leased', 'dead', 'oldest ready for']) {
    const div = el('div');
    div.append(el('dt', '', name), el('dd'));
    dl.append(div);
  }
  const name = el('p', 'name');
  name.append(el('b'));
  li.append(name, dl, el('p', 'said'), button);
  return li;
}

function fillQueue(li, q) {
  const [name, dl, said, button] = li.children;
  li._queue = q.name;
  setText(name.firstChild, q.name);
  const known = q.measured > 0;
  const figures = [count(q.ready), count(q.delayed), count(q.leased), count(q.dead), q.ready ? age(Math.floor(q.oldest)) : none];
  for (const [i, e] of [...dl.querySelectorAll('dd')].entries()) setText(e, known ? figures[i] : none);
  const found = q.verdicts || [];
  const old = latest.time - q.measured;
  setFound(said, found.length ? found : [{level: 0, text: known ? '✓ no job waits for long, none is dead' : 'being measured'}],
    known && old > 10 ? [{level: 0, text: `measured ${age(Math.floor(old))} ago`}] : known ? draining(li, q) : []);
  button.hidden = !$('dead') || !q.dead_letters;
  setAttr(button, 'aria-label', `Dead letters of queue ${q.name}`);
}

// draining says how fast a queue shrinks, and when it is empty if that goes on.
function draining(li, q) {
  const all = q.ready + q.delayed + q.leased;
  let was = li._was;
  if (!was || was.name !== q.name || q.measured < was.at) was = li._was = {name: q.name, at: q.measured, all, now: 0, speed: 0};
  if (q.measured > was.at) {
    const now = (was.all - all) / (q.measured - was.at);
    li._was = was = {name: q.name, at: q.measured, all, now, speed: (2 * (was.speed || now) + now) / 3}; // so that it does not jump
  }
  if (!all || was.now <= 0 || was.speed <= 0) return [];
  return [{level: 0, text: `${rate(was.speed)} jobs fewer a second: empty in about ${age(Math.ceil(all / was.speed))}`}];
}

// visible is s with what cannot be seen written as in JavaScript; line breaks and tabs may stay.
const visible = (s, lines) => s.replace(/\p{C}|\u2028|\u2029/gu, c => lines && (c === '\n' || c === '\t') ? c : c < '\u{100}' ? '\\x' + c.codePointAt(0).toString(16).padStart(2, '0') : `\\u{${c.codePointAt(0).toString(16)}}`);

// ---- dead letters of one queue

let dead = null; // {queue, by, known, pages, n, more}: what is listed, of which pages has the places that they come after
const BY = ['id', 'type', 'older', 'newer']; // what dead letters can be filtered by
const unfiltered = () => BY.every(k => !dead.by[k]);

async function openDead(name) {
  if (!(await ask('', 'Show dead letters'))) return;
  const q = queues.find(q => q.name === name);
  dead = {queue: name, by: {}, known: q ? q.dead : 0, pages: [''], n: 0, more: false};
  for (const k of BY) $('dead-' + k).value = '';
  drawDead({letters: []}); // nothing is known yet, and nothing can be done
  setText($('dead-h'), `Dead letters of ${name}`);
  setText($('dead-count'), '');
  deadSaid('');
  $('dead').hidden = false;
  $('dead').scrollIntoView({block: 'nearest'});
  $('dead-h').focus();
  listDead();
}

function closeDead() {
  dead = null;
  $('dead').hidden = true;
  $('dead-list').replaceChildren();
}

function deadSaid(s, bad) {
  setText($('dead-said'), s);
  setClass($('dead-said'), bad ? 'bad' : 'muted');
}

async function deadCommand(body) {
  const resp = await fetch('dead', {
    method: 'POST',
    headers: {'Content-Type': 'application/json', 'Shoal-Token': getToken()},
    body: JSON.stringify({queue: dead.queue, ...body}),
  });
  if (!resp.ok) {
    if (resp.status === 401 || resp.status === 403) setToken(''); // ask again
    throw new Error((await resp.text()).trim() || `${resp.status} ${resp.statusText}`);
  }
  return resp.json();
}

async function listDead() {
  const mine = dead;
  try {
    const after = mine.pages[mine.pages.length - 1];
    const answer = await deadCommand({action: 'list', after, ...mine.by});
    if (dead !== mine || mine.pages[mine.pages.length - 1] !== after) return;
    if (!answer.letters.length && mine.pages.length > 1) { // they are gone
      mine.pages.pop();
      return listDead();
    }
    drawDead(answer);
  } catch (err) {
    if (dead !== mine) return;
    deadSaid(`✗ not known: ${err.message}`, true);
    dead.n = 0; // of those of the filter none are listed
    lockDead();
  }
}

// which says what is listed.
const which = () => ['of type', 'with ID', 'older than', 'newer than'].map((s, i) => {
  const v = dead.by[['type', 'id', 'older', 'newer'][i]];
  return v ? ` ${s} ${visible(v)}` : '';
}).join('');

// inAll is how many dead letters are selected, as far as is known: [7], or [201, 'at least '].
function inAll() {
  const n = PAGE * (dead.pages.length - 1) + dead.n;
  if (!dead.more) return [n];
  return unfiltered() && dead.known > n ? [dead.known] : [n + 1, 'at least '];
}
const PAGE = 100; // dead letters that are listed at once

function drawDead(answer) {
  dead.n = answer.letters.length;
  dead.more = answer.more;
  dead.next = answer.next;
  const [n, least = ''] = inAll(), before = PAGE * (dead.pages.length - 1);
  const part = before || dead.more ? `${count(before + 1)} to ${count(before + dead.n)} of ${least}` : '';
  setText($('dead-count'), dead.n ? `${part}${some(n, 'dead letter')}${which()}, the newest first` : `no dead letter${which()}`);
  const every = 'all' + (part && !least ? ' ' + count(n) : '') + which(); // not only those of this page
  setText($('dead-retry'), 'Retry ' + every);
  setText($('dead-delete'), 'Delete ' + every);
  $('dead-pages').hidden = !part;
  $('dead-back').disabled = !before;
  $('dead-next').disabled = !dead.next;
  lockDead();
  // Those that are shown already stay, perhaps open.
  const have = new Map([...$('dead-list').children].map(e => [e._key, e]));
  const next = answer.letters.map(l => {
    const key = JSON.stringify([l.id, l.at]);
    return have.get(key) || makeLetter(l, key);
  });
  $('dead-list').replaceChildren(...next);
}

// lockDead lets nothing be done to all while the filter differs from that of what is listed.
function lockDead() {
  const other = BY.some(k => $('dead-' + k).value.trim() !== (dead.by[k] || ''));
  $('dead-retry').disabled = $('dead-delete').disabled = other || dead.n === 0;
  return other;
}

function makeLetter(l, key) {
  const d = el('details'), sum = el('summary'), box = el('div', 'letter');
  d._key = key;
  sum.append(el('b', '', visible(l.reason) || 'no reason is known'), ' ',
    el('span', 'muted', `${visible(job(l))}, ${some(l.attempt, 'attempt')}, ${new Date(l.at * 1000).toLocaleString('en-GB', {dateStyle: 'medium', timeStyle: 'medium'})}`));
  const block = (name, text) => {
    if (!text) return;
    const pre = el('pre', '', visible(text, true));
    pre.tabIndex = 0;
    pre.setAttribute('role', 'region');
    pre.setAttribute('aria-label', name);
    box.append(el('p', 'muted', name), pre);
  };
  block('output of the last attempt', l.output);
  block('header', l.header.join('\n'));
  const shown = new TextEncoder().encode(l.data).length;
  block(shown < l.size ? `payload, the beginning of ${count(l.size)} bytes` : 'payload', l.data);
  const bar = el('div', 'bar');
  const add = (text, f) => {
    const b = el('button', '', text);
    b.type = 'button';
    b.addEventListener('click', f);
    bar.append(b);
  };
  add('Retry', () => actDead('retry', {id: l.id}, `Retry the job ${visible(l.id)}? It is ready again, and its attempts count from 1.`));
  add('Delete', () => actDead('delete', {id: l.id}, `Delete the job ${visible(l.id)} for ever?`));
  if (l.type) {
    add('Show this type only', () => {
      for (const k of BY) $('dead-' + k).value = '';
      $('dead-type').value = l.type;
      filterDead();
    });
  }
  box.append(bar);
  d.append(sum, box);
  return d;
}

async function filterDead() {
  if (!(await ask('', 'Show dead letters')) || !dead) return;
  dead = {...dead, by: Object.fromEntries(BY.map(k => [k, $('dead-' + k).value.trim()])), pages: ['']};
  deadSaid('');
  listDead();
}

async function actDead(action, what, text) {
  if (!(await ask(text, action === 'retry' ? 'Retry' : 'Delete')) || !dead) return;
  deadSaid('…');
  const mine = dead.queue;
  try {
    const {jobs} = await deadCommand({action, ...what});
    if (!dead || dead.queue !== mine) return;
    deadSaid(`${some(jobs, 'job')} ${action === 'retry' ? 'retried' : 'deleted'} at ${new Date().toLocaleTimeString('en-GB')}`);
  } catch (err) {
    if (dead && dead.queue === mine) deadSaid(`✗ refused: ${err.message}`, true);
  }
  if (!dead || !getToken()) return;
  listDead();
  getQueues(true);
}

function initDead() {
  if (!$('dead')) return;
  const each = (action, text) => () => {
    if (!dead) return;
    const [n, least] = inAll();
    const what = least ? `all dead letters${which()}, ${least}${count(n)},` : n === 1 ? `the dead letter${which()}` : `all ${count(n)} dead letters${which()}`;
    actDead(action, {...dead.by, all: unfiltered()}, text(what, dead.queue));
  };
  const turn = f => () => {
    if (!dead) return;
    f();
    $('dead-list').scrollTop = 0;
    $('dead-h').scrollIntoView({block: 'nearest'});
    listDead();
  };
  $('dead-next').addEventListener('click', turn(() => { dead.pages.push(dead.next); }));
  $('dead-back').addEventListener('click', turn(() => { dead.pages.pop(); }));
  $('dead-retry').addEventListener('click', each('retry', (n, q) => `Retry ${n} of queue ${q}? They are ready again, and their attempts count from 1.`));
  $('dead-delete').addEventListener('click', each('delete', (n, q) => `Delete ${n} of queue ${q} for ever?`));
  $('dead-close').addEventListener('click', closeDead);
  $('dead-filter').addEventListener('input', () => {
    if (dead) deadSaid(lockDead() ? 'Show lists these' : '');
  });
  $('dead-filter').addEventListener('submit', e => {
    e.preventDefault();
    filterDead();
  });
}

// ---- plots

const perSecond = v => rate(v) + '/s';
const tasks = v => Number.isFinite(v) ? count(v) + ' ' + (v === 1 ? 'task' : 'tasks') : none;
const hands = v => Number.isFinite(v) ? count(v) + ' ' + (v === 1 ? 'worker' : 'workers') : none;
const CAPACITY = -1; // not in the ring: it never changes

// A bound is a series that is left out of the plot where it would squash the
// others: it is far above them, or there is none. One of what is below is for
// pools with sub-pools.
const PLOTS = [
  {title: 'Tasks in and out', unit: 'tasks/s', text: perSecond, series: [['in', IN], ['out', OUT], ['subs', BELOW, 'below']]},
  {title: 'Queue of the pool', unit: 'tasks', text: tasks, whole: true, series: [['queued', QUEUED], ['capacity', CAPACITY, 'bound']]},
  {title: 'Workers', unit: 'workers', text: hands, whole: true, series: [['running', RUNNING], ['idle', IDLE], ['limit', LIMIT, 'bound']]},
  {title: 'Wait in the queue', unit: 'time, log', text: secs, log: true, series: [['p50', WAIT50], ['p99', WAIT99]]},
  {title: 'Run time', unit: 'time, log', text: secs, log: true, series: [['p50', RUN50], ['p99', RUN99]]},
  {title: 'Failed, rejected and dropped', unit: 'tasks/s', text: perSecond, series: [['failed', FAIL], ['rejected', REJECT], ['dropped', DROP, 'third']]},
];
const DASH = [[], [6, 4], [2, 3]]; // as the swatches in style.css
const LABELS = 56; // px at the right, for the names of the lines
let plots = null;
let colour = {};
let span = [0, 60];   // that the plots show
let zoom = null;      // the span that was chosen; null: all
let all = [0, 60];    // the span of all that there is
const LEAST = 5;      // seconds that can be shown

function readColours() {
  const css = getComputedStyle(document.documentElement);
  for (const k of ['s1', 's2', 's3', 'muted', 'grid', 'bg']) colour[k] = css.getPropertyValue('--' + k).trim();
}

function lineColour(plot, i) {
  return colour[plot.series[i][2] ? 's3' : i ? 's2' : 's1'];
}

// plotted gives the slots to plot, as numbers that grow.
function plotted() {
  const end = Math.min(taken, view.end);
  let from = Math.max(0, taken - CAP, end - CAP);
  if (end > from) {
    const last = times[(end - 1) % CAP];
    while (from < end && times[from % CAP] < last - WINDOW) from++;
  }
  return [from, end];
}

// timeline gives the moments to plot, the oldest first: slots, and where there is none the points
// that the server kept, which are of longer intervals.
function timeline(p) {
  const [from, end] = plotted();
  const slots = [];
  for (let i = from; i < end; i++) slots.push({t: times[i % CAP], at: i % CAP, gap: gaps[i % CAP] === 1});
  if (!slots.length) return slots;
  const last = slots[slots.length - 1].t;
  const kept = [];
  let k = 0;
  for (const q of p.past) {
    if (q.time < last - WINDOW || q.time > last) continue;
    while (k < slots.length && (slots[k].gap || slots[k].t < q.time - GAP)) k++;
    if (k < slots.length && slots[k].t < q.time + GAP) continue; // it was seen
    kept.push({t: q.time, past: q, gap: false});
  }
  const all = [...slots, ...kept].sort((a, b) => a.t - b.t);
  const out = [];
  for (const e of all) {
    const before = out[out.length - 1];
    if (before && e.t - before.t > KEPT_GAP && !before.gap && !e.gap) out.push({t: before.t + 1, gap: true});
    out.push(e);
  }
  return out.filter((e, i) => !e.gap || !out[i + 1] || out[i + 1].t - e.t > KEPT_GAP - 2);
}

const KEPT_GAP = 9; // seconds without a point that the server kept, or a slot, that show as a gap

function valueOf(p, e, field) {
  if (e.gap) return NaN;
  if (field === CAPACITY) return p.seen.queue_capacity;
  if (!e.past) return p.ring ? p.ring[e.at * FIELDS + field] : NaN;
  const v = e.past[KEPT[field]];
  return v === 0 && field >= WAIT50 && field <= RUN99 ? NaN : v;
}

// column is a field of a pool as uPlot wants it: null ends a line, undefined is
// passed over. Measured times are sparse with one task in 64 measured, so a few
// moments without one do not end the line, as long as tasks ended meanwhile. A
// stall does, as a lost connection does: a line across it would be a climb that
// never was.
function column(p, field, list, sparse) {
  const v = new Array(list.length);
  let last = -1;
  let quiet = 0; // seconds since then in which no task ended
  for (const [k, e] of list.entries()) {
    const x = valueOf(p, e, field);
    v[k] = Number.isNaN(x) ? null : x;
    if (!sparse) continue;
    if (e.gap) quiet = Infinity;
    if (v[k] === null) {
      if (k && !(valueOf(p, e, OUT) > 0)) quiet += e.t - list[k - 1].t;
      continue;
    }
    if (last >= 0 && k - last <= 10 && quiet < STALL) for (let j = last + 1; j < k; j++) v[j] = undefined;
    last = k;
    quiet = 0;
  }
  return v;
}

const STALL = 2.5; // seconds in which no task ended that end the lines of measured times

// ---- what the server kept

let first = 0;     // the time of the first snapshot
let connected = 0; // how many times, so far

async function getPast() {
  const p = current();
  if (!p || p.pastOf === connected) return;
  p.pastOf = connected;
  try {
    const resp = await fetch(`history.json?pool=${p.id}`, {cache: 'no-store'});
    if (!resp.ok) return; // it has ended meanwhile
    p.past = (await resp.json()).points;
    if (p.href === chosen) drawPlots(p);
  } catch {
    p.pastOf = 0; // again, with the next snapshot
  }
}

const most = cols => {
  let m = 0;
  for (const c of cols) for (const v of c) if (v > m) m = v;
  return m;
};

const wholeSteps = []; // between ticks: no tenth of a task, and no label that is rounded
for (let d = 1; d < 1e13; d *= 10) wholeSteps.push(d, 2 * d, 5 * d);
const steps = [0.1, 0.2, 0.5, ...wholeSteps];

function makePlot(plot) {
  const fig = el('figure', plot.series.length > 2 ? 'plot wide' : 'plot'), cap = el('figcaption');
  const at = el('time', '', 'now');
  const keys = el('span', 'keys');
  cap.append(el('span', 'title', plot.title), at, keys);
  const keyOf = plot.series.map(([name, , kind], i) => {
    const key = el('span', 'key k' + (kind ? 3 : i + 1));
    key.append(el('i'), name + ' ', el('span', 'v', none));
    keys.append(key);
    return key;
  });
  const values = keyOf.map(key => key.lastChild);
  const canvas = el('div', 'canvas');
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${plot.title}: ${plot.series.map(s => s[0]).join(', ')}, in ${plot.unit}, of the last ten minutes`);
  fig.append(cap, canvas);
  $('plots').append(fig);

  const font = '11px system-ui, sans-serif';
  const axis = {font, stroke: () => colour.muted, grid: {stroke: () => colour.grid, width: 1}, ticks: {stroke: () => colour.grid, width: 1, size: 3}, border: {show: false}};
  const state = {plot, values, keys: keyOf, at, canvas};
  const series = [{}];
  for (const [i, [name, , kind]] of plot.series.entries()) {
    series.push({
      label: name,
      stroke: () => lineColour(plot, i),
      width: kind ? 1.5 : 2,
      dash: DASH[kind ? 2 : i],
      points: {show: false, size: 4, fill: () => lineColour(plot, i), filter: alone},
    });
    series[i + 1].points.show = true;
  }
  const u = new uPlot({
    width: Math.max(120, canvas.clientWidth),
    height: 132,
    padding: [6, LABELS, 0, 0],
    legend: {show: false},
    cursor: {sync: {key: 'shoal'}, drag: {x: true, y: false, setScale: false, dist: 6}, y: false, points: {size: 7}},
    scales: {
      x: {time: true, range: () => span},
      y: plot.log
        ? {distr: 3, log: 10, range: (_, lo, hi) => lo > 0 ? [10 ** Math.floor(Math.log10(lo)), 10 ** Math.max(Math.floor(Math.log10(lo)) + 1, Math.ceil(Math.log10(hi)))] : [1e-6, 1]}
        : {range: (_, lo, hi) => [0, Math.max(1, 1.08 * (hi || 0))]},
    },
    axes: [
      {...axis, size: 22, space: 58, incrs: [1, 2, 5, 10, 15, 30, 60, 120, 180, 300], values: (_, splits, __, ___, step) => splits.map(t => step < 60 ? clock(t) : clock(t).slice(0, 5))},
      {
        ...axis, size: 48, space: 24, label: plot.unit, labelSize: 14, labelGap: 0, labelFont: font,
        values: (_, splits) => splits.map(v => v === null ? '' : plot.log ? tick(v) : short(v)),
        ...(plot.log ? {splits: decades, filter: (_, s) => s} : {incrs: plot.whole ? wholeSteps : steps}),
      },
    ],
    series,
    hooks: {
      draw: [u => names(u, plot)],
      setCursor: [() => readout(state)],
      setSelect: [u => {
        const {left, width} = u.select;
        if (width < 2) return;
        u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
        setZoom(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
      }],
    },
  }, [[], ...plot.series.map(() => [])], canvas);
  u.over.addEventListener('dblclick', () => setZoom(0, Infinity));
  state.u = u;
  return state;
}

const tick = s => s >= 1 ? count(s) + 's' : s > 0.0009 ? Math.round(s * 1e3) + 'ms' : s > 0.9e-6 ? Math.round(s * 1e6) + 'µs' : Math.round(s * 1e9) + 'ns';

// decades are the ticks of a logarithmic axis: no more than fit.
function decades(u, axis, lo, hi) {
  const a = Math.round(Math.log10(lo)), n = Math.round(Math.log10(hi)) - a;
  const steps = n === 1 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil(n / 4));
  const ticks = [];
  for (let d = a; d <= a + n; d += stride) for (const m of steps) if (m * 10 ** d <= hi * 1.0001) ticks.push(m * 10 ** d);
  return ticks;
}

// alone are the points without a neighbour, which a line would not show.
function alone(u, i) {
  const d = u.data[i], points = [];
  const next = (k, by) => {
    for (k += by; k >= 0 && k < d.length; k += by) if (d[k] !== undefined) return d[k];
    return null;
  };
  for (let k = 0; k < d.length; k++) if (d[k] != null && next(k, -1) === null && next(k, 1) === null) points.push(k);
  return points;
}

// names writes the name of each line at its end, so that nobody has to tell
// them by colour.
function names(u, plot) {
  const ctx = u.ctx, px = devicePixelRatio, ends = [];
  for (const [i, [name]] of plot.series.entries()) {
    const d = u.data[i + 1];
    const xs = u.data[0];
    let k = d.length - 1;
    while (k >= 0 && (d[k] == null || xs[k] > span[1])) k--;
    if (k < 0 || xs[k] < span[0] || span[1] - xs[k] > (span[1] - span[0]) / 10) continue;
    ends.push({name, i, y: u.valToPos(d[k], 'y', true)});
  }
  const gap = 12 * px, top = u.bbox.top + 5 * px, bottom = u.bbox.top + u.bbox.height - 3 * px;
  ends.sort((a, b) => a.y - b.y || a.i - b.i);
  for (const [k, e] of ends.entries()) e.y = Math.max(e.y, top, k ? ends[k - 1].y + gap : 0);
  for (let k = ends.length - 1; k >= 0; k--) ends[k].y = Math.min(ends[k].y, k < ends.length - 1 ? ends[k + 1].y - gap : bottom);
  ctx.save();
  ctx.font = `${11 * px}px system-ui, sans-serif`;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  for (const e of ends) {
    ctx.fillStyle = lineColour(plot, e.i);
    ctx.fillText(e.name, u.bbox.left + u.bbox.width + 5 * px, e.y);
  }
  ctx.restore();
}

function drawPlots(p) {
  if (!plots) {
    readColours();
    plots = PLOTS.map(makePlot);
    new ResizeObserver(() => {
      for (const s of plots) {
        const w = s.canvas.clientWidth;
        if (w && w !== s.u.width) s.u.setSize({width: w, height: 132});
      }
    }).observe($('plots'));
  }
  const list = timeline(p);
  if (!list.length) return;
  const xs = list.map(e => e.t);
  const last = xs[xs.length - 1];
  $('plots').dataset.points = xs.length;
  $('plots').dataset.since = first ? Math.round(first - xs[0]) : 0; // what was before the page was opened
  all = [last - Math.max(60, Math.min(WINDOW, last - xs[0])), last];
  if (zoom && zoom[1] <= all[0]) zoom = null; // it is over ten minutes ago
  span = zoom || all;
  drawZoom();
  for (const s of plots) {
    let cols = s.plot.series.map(([, field, kind]) => kind === 'below' && !p.seen.below.pools ? xs.map(() => null) : column(p, field, list, s.plot.log));
    s.all = cols;
    for (const [i, [, , kind]] of s.plot.series.entries()) {
      if (kind !== 'below' || s.keys[i].isConnected === p.seen.below.pools > 0) continue;
      if (p.seen.below.pools) s.keys[0].parentNode.append(s.keys[i]);
      else s.keys[i].remove();
    }
    const rest = Math.max(1, most(cols.filter((_, i) => s.plot.series[i][2] !== 'bound')));
    cols = cols.map((c, i) => {
      if (s.plot.series[i][2] !== 'bound') return s.plot.log ? c.map(v => v === 0 ? 1e-9 : v) : c;
      const bound = most([c]);
      return bound > 0 && bound <= 20 * rest ? c : c.map(() => null);
    });
    s.u.setData([xs, ...cols]);
    readout(s);
  }
}

// setZoom shows a span of time, or all if that is no less.
function setZoom(from, to) {
  if (to - from < LEAST) {
    const middle = (from + to) / 2;
    [from, to] = [middle - LEAST / 2, middle + LEAST / 2];
  }
  const width = Math.min(to - from, all[1] - all[0]);
  from = Math.max(all[0], Math.min(from, all[1] - width));
  zoom = width >= all[1] - all[0] ? null : [from, from + width];
  const p = current();
  if (p) drawPlots(p);
}

// scaleZoom shows f times as much, around the cursor or else what comes last.
function scaleZoom(f) {
  if (!plots) return;
  const u = plots[0].u;
  const at = u.cursor.left >= 0 ? u.posToVal(u.cursor.left, 'x') : span[1];
  setZoom(at - (at - span[0]) * f, at + (span[1] - at) * f);
}

function drawZoom() {
  const seconds = Math.round(span[1] - span[0]);
  setText($('z-span'), zoom ? `${clock(zoom[0])} to ${clock(zoom[1])}, ${age(seconds)}` : `the last ${age(seconds)}`);
  $('z-out').disabled = $('z-all').disabled = !zoom;
  $('z-in').disabled = span[1] - span[0] <= LEAST;
  setAttr($('plots'), 'data-zoom', zoom ? seconds : 0);
}

// readout writes a plot's values: at the cursor if there is one, else the last.
function readout(s) {
  if (!s.u || !s.all) return;
  const u = s.u, left = u.cursor.left;
  const xs = u.data[0];
  const hover = left >= 0 && xs.length > 0;
  const k = hover ? u.posToIdx(left) : xs.length - 1;
  setText(s.at, hover ? clock(xs[k]) : 'now');
  for (const [i, v] of s.values.entries()) {
    const x = s.all[i][k];
    const unbounded = s.plot.series[i][2] === 'bound' && x !== null && x < 0;
    setText(v, unbounded ? 'unbounded' : x == null ? none : s.plot.text(x));
  }
}

function initPlots() {
  $('plots').addEventListener('keydown', e => {
    const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
    const scale = {'+': 0.5, '=': 0.5, '-': 2, '0': Infinity}[e.key];
    if (!plots || e.ctrlKey || e.metaKey || e.altKey || (by === undefined && scale === undefined && e.key !== 'Escape')) return;
    e.preventDefault();
    const u = plots[0].u, n = u.data[0].length;
    if (scale === Infinity || (e.key === 'Escape' && u.cursor.left < 0)) return setZoom(0, Infinity);
    if (scale) return scaleZoom(scale);
    let left = -10;
    if (by && n) {
      const now = u.cursor.left >= 0 ? u.posToIdx(u.cursor.left) : u.posToIdx(u.valToPos(span[1], 'x')) + 1;
      const step = by * (e.shiftKey ? 10 : 1);
      const t = u.data[0][Math.max(0, Math.min(n - 1, now + step))];
      // A zoom follows the cursor.
      if (zoom && t < span[0]) setZoom(t, t + span[1] - span[0]);
      else if (zoom && t > span[1]) setZoom(t - (span[1] - span[0]), t);
      left = Math.max(0, u.valToPos(t, 'x'));
    }
    for (const s of plots) s.u.setCursor({left, top: left < 0 ? -10 : 1});
  });
  $('z-in').addEventListener('click', () => scaleZoom(0.5));
  $('z-out').addEventListener('click', () => scaleZoom(2));
  $('z-all').addEventListener('click', () => setZoom(0, Infinity));
  $('plots').addEventListener('blur', () => {
    if (plots && !$('plots').matches(':hover')) for (const s of plots) s.u.setCursor({left: -10, top: -10});
  });
}

// ---- workers of the chosen pool

let workers = null;
let workerLimit = 100;
const MAX_WORKERS = 10000; // the server sends no more
let workersSeen = false; // is their table on the screen
let polling = false;
let pollAbort = new AbortController();
let workerRows = null;

async function pollWorkers(force) {
  const p = current();
  if (!p || polling || document.hidden || (!force && workers && !workersSeen)) return;
  polling = true;
  pollAbort = new AbortController();
  const mine = pollAbort;
  try {
    const resp = await fetch(`workers.json?pool=${p.id}&limit=${workerLimit}`, {signal: mine.signal, cache: 'no-store'});
    if (!resp.ok) throw new Error((await resp.text()).trim() || resp.statusText);
    const w = await resp.json();
    w.workers = w.workers || [];
    if (mine.signal.aborted) return;
    workers = w;
    drawWorkers('');
  } catch (err) {
    if (!mine.signal.aborted && connection === 'live') drawWorkers(err.message);
  } finally {
    if (mine === pollAbort) polling = false;
  }
}

function drawWorkers(error) {
  const w = workers || {total: 0, workers: []};
  setText($('w-count'), error ? `not known: ${error}` : w.workers.length < w.total ? `the first ${count(w.workers.length)} of ${count(w.total)}, longest task first` : some(w.total, 'worker'));
  $('w-more').hidden = w.workers.length >= w.total || workerLimit >= MAX_WORKERS;
  setAttr($('w-box').firstElementChild, 'aria-rowcount', w.workers.length + 1);
  workerRows.set(w.workers);
}

const WORKER_MARK = {running: '▶', spinning: '↻', parked: '·'};

function makeWorker() {
  const tr = el('tr');
  for (let i = 0; i < 5; i++) tr.append(el('td'));
  tr._cells = [...tr.children];
  return tr;
}

function fillWorker(tr, w, i) {
  const c = tr._cells;
  setAttr(tr, 'aria-rowindex', i + 2);
  setText(c[0], String(w.id));
  setText(c[1], `${WORKER_MARK[w.state] || '?'} ${w.state}`);
  setClass(c[1], w.state === 'running' ? '' : 'zero');
  setText(c[2], w.task_age > 0 ? '≥ ' + age(w.task_age) : none);
  setText(c[3], count(w.executed));
  setText(c[4], count(w.failed));
  setClass(c[4], w.failed ? '' : 'zero');
}

function initWorkers() {
  workerRows = new Rows($('w-box'), $('w-body'), 5, makeWorker, fillWorker);
  $('w-more').addEventListener('click', () => {
    workerLimit = Math.min(MAX_WORKERS, 10 * workerLimit);
    pollAbort.abort();
    polling = false;
    pollWorkers(true);
  });
  new IntersectionObserver(entries => {
    workersSeen = entries[entries.length - 1].isIntersecting;
    if (workersSeen && !frozen) pollWorkers(true);
  }, {rootMargin: '100px'}).observe($('w-box'));
}

// ---- stacks of the oldest tasks

let stacksBusy = false;
let stacksOf = 0; // grows with every change of pool: an answer for another is dropped

function dropStacks() {
  stacksOf++;
  stacksBusy = false;
  $('stacks').replaceChildren();
  $('s-note').hidden = true;
  setText($('s-at'), 'stops the process for a moment');
}

async function getStacks() {
  const p = current();
  if (!p || stacksBusy) return;
  stacksBusy = true;
  $('s-get').disabled = true;
  const mine = stacksOf;
  setText($('s-at'), 'reading…');
  try {
    const resp = await fetch(`stacks.json?pool=${p.id}&n=10`, {cache: 'no-store'});
    if (!resp.ok) throw new Error((await resp.text()).trim() || resp.statusText);
    const s = await resp.json();
    if (mine !== stacksOf) return;
    drawStacks(s);
  } catch (err) {
    if (mine === stacksOf) setText($('s-at'), `not known: ${err.message}`);
  } finally {
    if (mine === stacksOf) stacksBusy = false;
    $('s-get').disabled = stacksBusy || !current();
  }
}

function drawStacks(s) {
  const list = s.groups || [];
  const n = list.reduce((n, g) => n + g.count, 0);
  const at = new Date().toLocaleTimeString('en-GB');
  setText($('s-at'), (n ? `${some(n, 'task')} at ${some(list.length, 'place')}` : 'no task is running') + ', at ' + at);
  setText($('s-note'), s.note || '');
  $('s-note').hidden = !s.note;
  $('stacks').replaceChildren(...list.map((g, i) => {
    const d = el('details'), sum = el('summary'), box = el('div', 'stack');
    d.open = i === 0;
    const who = g.count === 1 ? `worker ${g.workers[0]}, ≥ ${age(g.age)}: ` : `${some(g.count, 'task')}, the oldest ≥ ${age(g.age)}: `;
    sum.append(who, el('code', 'own-frame', g.func), ' ', el('code', '', g.place.replace(/^.*\//, '')));
    const top = innermost(g.stack);
    if (top !== g.func) sum.append(', inside ', el('code', '', top));
    const pre = el('pre');
    fillStack(pre, g);
    pre.tabIndex = 0;
    pre.setAttribute('role', 'region');
    pre.setAttribute('aria-label', `Stack of ${g.count === 1 ? 'worker ' + g.workers[0] : some(g.count, 'task')}`);
    const copy = el('button', '', 'Copy');
    copy.type = 'button';
    copy.addEventListener('click', async () => {
      setText(copy, await copyText(g.stack, pre) ? 'Copied' : 'Selected');
      setTimeout(() => setText(copy, 'Copy'), 2000);
    });
    const crew = el('p', 'muted', g.count > 1 ? `workers ${g.workers.join(', ')}${g.count > g.workers.length ? ', …' : ''}; this is the oldest:` : '');
    crew.hidden = g.count === 1;
    box.append(crew, pre, copy);
    d.append(sum, box);
    return d;
  }));
  if (list.length) $('stacks').firstElementChild.scrollIntoView({block: 'nearest'});
}

// fillStack writes a stack, with the frame of the program's own code in bold.
function fillStack(pre, g) {
  if (!g.stack) {
    pre.textContent = 'It has no stack any more.';
    return;
  }
  const lines = g.stack.split('\n');
  const k = lines.findIndex((line, i) => i % 2 === 1 && line.startsWith(g.func + '(') && (lines[i + 1] || '').includes(g.place));
  if (k < 0) {
    pre.textContent = g.stack;
    return;
  }
  const before = lines.slice(0, k).join('\n'), after = lines.slice(k + 2).join('\n');
  pre.append(before + '\n', el('b', '', lines.slice(k, k + 2).join('\n')), after ? '\n' + after : '');
}

// innermost is the topmost function of a stack.
function innermost(stack) {
  for (const line of stack.split('\n')) {
    if (!line || /^\s/.test(line) || /^goroutine \d/.test(line)) continue;
    const i = line.lastIndexOf('(');
    return i > 0 ? line.slice(0, i) : line;
  }
  return '';
}

// copyText copies, or at least selects: the clipboard is there for https and
// localhost only.
async function copyText(text, pre) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(pre);
    return document.execCommand('copy');
  }
}

// ---- controls

let sized = '';     // the bounds that the inputs were given
let controlling = false;

const getToken = () => {
  try {
    return sessionStorage.getItem('shoal-token') || '';
  } catch {
    return typedToken;
  }
};
let typedToken = ''; // where there is no storage
function setToken(s) {
  typedToken = s;
  try {
    if (s) sessionStorage.setItem('shoal-token', s);
    else sessionStorage.removeItem('shoal-token');
  } catch { /* kept in typedToken */ }
}

function drawControls(r) {
  if (!$('controls')) return;
  $('c-min').disabled = r.parent >= 0; // the workers of a sub-pool are its parent's
  const ended = r.state === 'Closed' || r.state === 'Draining';
  setText($('c-pause'), r.state === 'Paused' ? 'Resume' : 'Pause');
  $('c-pause').disabled = ended || controlling;
  $('c-resize').lastElementChild.disabled = ended || controlling;
  const now = `${r.min_workers} ${r.max_workers}`;
  if (sized === now || $('c-resize').contains(document.activeElement)) return;
  sized = now;
  $('c-min').value = r.min_workers;
  $('c-max').value = r.max_workers;
}

function controlSaid(s, bad) {
  if (!$('controls')) return;
  setText($('c-said'), s);
  setClass($('c-said'), bad ? 'bad' : 'muted');
}

// ask shows the dialog, if there is anything to ask: a confirmation or the token.
// It gives whether to go on.
function ask(text, yes) {
  const needs = !getToken();
  if (!text && !needs) return Promise.resolve(true);
  const dialog = $('ask');
  $('ask-text').textContent = text || `${yes} needs the token that the server was given.`;
  $('ask-yes').textContent = yes;
  $('ask-key').hidden = !needs;
  $('ask-token').value = '';
  dialog.showModal();
  (needs ? $('ask-token') : $('ask-yes')).focus();
  return new Promise(done => { answer = done; });
}

let answer = null; // takes the answer to what is asked now

function answered(yes) {
  const done = answer;
  answer = null;
  if (yes && !$('ask-key').hidden) setToken($('ask-token').value);
  $('ask-token').value = '';
  $('ask').close();
  if (done) done(yes);
}

async function control(p, body, done) {
  controlling = true;
  controlSaid('…', false);
  try {
    const resp = await fetch('control', {
      method: 'POST',
      headers: {'Content-Type': 'application/json', 'Shoal-Token': getToken()},
      body: JSON.stringify({pool: p.id, ...body}),
    });
    if (!resp.ok) {
      if (resp.status === 401 || resp.status === 403) setToken(''); // ask again
      throw new Error((await resp.text()).trim() || `${resp.status} ${resp.statusText}`);
    }
    if (p.href === chosen) controlSaid(`${done} at ${new Date().toLocaleTimeString('en-GB')}`, false);
  } catch (err) {
    if (p.href === chosen) controlSaid(`✗ refused: ${err.message}`, true);
  } finally {
    controlling = false;
    const now = current();
    if (now) drawControls(now.seen);
  }
}

function initControls() {
  if (!$('controls')) return;
  $('c-pause').addEventListener('click', async () => {
    const p = current();
    if (!p) return;
    const resume = p.seen.state === 'Paused';
    const text = resume ? '' : `Pause ${p.path}? Its workers take no more tasks until it is resumed. ${some(p.seen.queued, 'task is', 'tasks are')} queued now.`;
    if (await ask(text, resume ? 'Resume' : 'Pause')) control(p, {action: resume ? 'resume' : 'pause'}, resume ? 'resumed' : 'paused');
  });
  $('c-resize').addEventListener('submit', async e => {
    e.preventDefault();
    const p = current();
    const min = $('c-min').valueAsNumber, max = $('c-max').valueAsNumber;
    if (!p) return;
    const r = p.seen, most = r.max_workers < 0 ? 'unbounded' : count(r.max_workers);
    let text = `Give ${p.path} ${count(min)} to ${count(max)} workers instead of ${count(r.min_workers)} to ${most}?`;
    if (min > r.workers) text += ` That starts ${some(min - r.workers, 'worker')} now.`;
    if (max < r.running) text += ` ${some(r.running, 'task runs', 'tasks run')} now, and none is stopped.`;
    if (!(await ask(text, 'Resize'))) return;
    control(p, {action: 'resize', min, max}, `resized to ${count(min)} to ${count(max)}`);
  });
  $('ask-no').addEventListener('click', () => answered(false));
  $('ask-form').addEventListener('submit', e => {
    e.preventDefault();
    answered(true);
  });
  // Escape. The event comes late, perhaps when something else is asked already.
  $('ask').addEventListener('close', () => { if (!$('ask').open) answered(false); });
}

// ---- the frame

const THEMES = ['auto', 'light', 'dark'];

function setTheme(t) {
  const root = document.documentElement;
  if (t === 'auto') delete root.dataset.theme;
  else root.dataset.theme = t;
  setText($('theme'), 'Theme: ' + t);
  try {
    localStorage.setItem('shoal-theme', t);
  } catch { /* for this time only */ }
  recolour();
}

function recolour() {
  if (!plots) return;
  readColours();
  for (const s of plots) s.u.redraw(false);
}

function initFrame() {
  document.documentElement.classList.add('js');
  for (const e of document.querySelectorAll('[data-js]')) e.hidden = false;
  let theme = 'auto';
  try {
    theme = localStorage.getItem('shoal-theme');
  } catch { /* none is kept */ }
  setTheme(THEMES.includes(theme) ? theme : 'auto');
  $('theme').addEventListener('click', () => {
    const now = document.documentElement.dataset.theme || 'auto';
    setTheme(THEMES[(THEMES.indexOf(now) + 1) % 3]);
  });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
  $('freeze').addEventListener('click', () => {
    frozen = !frozen && view !== null;
    setAttr($('freeze'), 'aria-pressed', frozen);
    if (!frozen) update();
    showAge();
  });
  document.addEventListener('keydown', e => {
    if (e.key !== '/' || e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|TEXTAREA)$/.test(e.target.tagName)) return;
    e.preventDefault();
    $('filter').focus();
  });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) draw(); });
  $('strip').addEventListener('click', e => {
    const link = e.target.closest('a');
    if (!link) return;
    e.preventDefault();
    if (link.getAttribute('href') === '#queues') {
      $('queues').scrollIntoView({block: 'nearest'});
      $('qs-h').focus();
      return;
    }
    reveal = true;
    choose(link.getAttribute('href'), true);
    drawPools();
  });
  $('s-get').addEventListener('click', getStacks);
  $('d-stacks').addEventListener('click', () => {
    $('s-h').scrollIntoView({block: 'nearest'});
    $('s-h').focus();
    getStacks();
  });
  setInterval(() => {
    if (!document.hidden) showAge();
    const quiet = performance.now() - heard;
    if (quiet > 10000) { // a connection that died without a word
      setConnection('reconnecting…');
      connect();
    }
  }, 1000);
}

initFrame();
initPools();
initPlots();
initWorkers();
initControls();
initDead();
readHash();
addEventListener('hashchange', readHash);
connect();
})();
