{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.StatusPage
-- Description : The status page for people
-- Stability   : internal, exempt from the version policy
--
-- One document without anything from elsewhere. Its script asks for the JSON beside it once a second, while the page is visible,
-- and shows rates and latencies of the last ten seconds.
--
-- Cost: 9 KB, made once.
-- Owner: values.
module Heddle.Serve.StatusPage
  ( statusPage,
    statusPagePolicy,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C

-- | Rights of a browser on the page: its own script and style, and questions to its own server.
statusPagePolicy :: ByteString
statusPagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

-- | The document.
statusPage :: ByteString
statusPage = C.unlines (beginning ++ styles ++ content ++ script ++ ["</body>", "</html>"])

beginning, styles, content, script :: [ByteString]
beginning =
  [ "<!doctype html>",
    "<html lang=\"en\">",
    "<head>",
    "<meta charset=\"utf-8\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
    "<title>Server status</title>"
  ]
styles =
  [ "<style>",
    ":root { --back: #f7f8fa; --card: #fff; --text: #1b1f24; --dim: #57606a; --line: #d8dee4; --bar: #0b62c4; --good: #116329; --bad: #b3261e; }",
    "@media (prefers-color-scheme: dark) { :root { --back: #0f1318; --card: #181d24; --text: #e6edf3; --dim: #9aa5b1; --line: #303843; --bar: #58a6ff; --good: #56d364; --bad: #ff8f85; } }",
    "* { box-sizing: border-box; }",
    "body { margin: 0 auto; max-width: 72rem; padding: 1rem; background: var(--back); color: var(--text); font: 1rem/1.45 system-ui, sans-serif; }",
    "header { display: flex; flex-wrap: wrap; gap: .25rem 1rem; align-items: baseline; }",
    "h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.05rem; margin: 0 0 .5rem; }",
    "header p { margin: 0; color: var(--dim); }",
    ".state { font-weight: 600; } .good { color: var(--good); } .bad { color: var(--bad); }",
    ".cards { display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(max(8.5rem, 22%), 1fr)); margin: 1rem 0; padding: 0; }",
    ".cards div, section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }",
    "section { margin: 0 0 1rem; }",
    "dt { color: var(--dim); font-size: .85rem; } dd { margin: 0; font-size: 1.3rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }",
    ".scroll { overflow-x: auto; }",
    ".scroll:focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; }",
    "table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }",
    "th, td { text-align: right; padding: .3rem .6rem; border-top: 1px solid var(--line); white-space: nowrap; }",
    "thead th { border-top: 0; color: var(--dim); font-weight: 500; font-size: .85rem; }",
    "th:first-child, td:first-child { text-align: left; font-weight: 500; padding-left: 0; }",
    ".bars { display: flex; align-items: flex-end; gap: 2px; overflow: hidden; height: 7rem; border-bottom: 1px solid var(--line); }",
    ".bars i { flex: 1; min-width: 0; background: var(--bar); border-radius: 2px 2px 0 0; min-height: 1px; }",
    ".scale { display: flex; justify-content: space-between; color: var(--dim); font-size: .8rem; margin: .2rem 0 0; }",
    "@media (max-width: 40rem) { body { padding: .6rem; overflow-wrap: anywhere; } .bars { gap: 0; } .cards { grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); } .cards div, section { min-width: 0; } th, td { padding: .3rem .35rem; font-size: .9rem; } }",
    "[hidden] { display: none; }",
    "</style>",
    "</head>"
  ]
content =
  [ "<body>",
    "<header><h1>Server status</h1><p><span id=\"state\" class=\"state\" role=\"status\">loading</span></p><p id=\"about\"></p></header>",
    "<noscript><p>This page needs a script. The same figures are at <code>json</code> and <code>metrics</code> below this address.</p></noscript>",
    "<main>",
    "<dl class=\"cards\">",
    "<div><dt>Requests a second</dt><dd id=\"rate\">&ndash;</dd></div>",
    "<div><dt>Errors a second</dt><dd id=\"errors\">&ndash;</dd></div>",
    "<div><dt>Sent a second</dt><dd id=\"sent\">&ndash;</dd></div>",
    "<div><dt>Open connections</dt><dd id=\"open\">&ndash;</dd></div>",
    "<div><dt>Requests under way</dt><dd id=\"under\">&ndash;</dd></div>",
    "<div><dt>From the cache (its size)</dt><dd id=\"cache\">&ndash;</dd></div>",
    "<div><dt>Memory</dt><dd id=\"memory\">&ndash;</dd></div>",
    "<div><dt>Processor</dt><dd id=\"cpu\">&ndash;</dd></div>",
    "</dl>",
    "<section aria-labelledby=\"latency\"><h2 id=\"latency\">Latency</h2>",
    "<div class=\"bars\" id=\"bars\" role=\"img\" aria-label=\"Histogram of latencies\"></div><p class=\"scale\"><span id=\"from\"></span><span id=\"to\"></span></p>",
    "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Latency\"><table><thead><tr><th scope=\"col\">Time</th><th scope=\"col\">p50</th><th scope=\"col\">p90</th><th scope=\"col\">p99</th><th scope=\"col\">Max</th></tr></thead><tbody id=\"latencies\"></tbody></table></div></section>",
    "<section aria-labelledby=\"routes\"><h2 id=\"routes\">Routes</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Routes\"><table><thead><tr><th scope=\"col\">Route</th><th scope=\"col\">Requests</th><th scope=\"col\">4xx</th><th scope=\"col\">5xx</th><th scope=\"col\">Sent</th><th scope=\"col\">p50</th><th scope=\"col\">p99</th><th scope=\"col\">Max</th></tr></thead><tbody id=\"routeRows\"></tbody></table></div></section>",
    "<section aria-labelledby=\"upstreams\" id=\"upstreamPart\" hidden><h2 id=\"upstreams\">Servers behind this one</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Servers behind this one\"><table><thead><tr><th scope=\"col\">Server</th><th scope=\"col\">Route</th><th scope=\"col\">State</th><th scope=\"col\">Under way</th></tr></thead><tbody id=\"upstreamRows\"></tbody></table></div></section>",
    "<section aria-labelledby=\"pools\" id=\"poolPart\" hidden><h2 id=\"pools\">Connections and programs behind this server</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Connections and programs behind this server\"><table><thead><tr><th scope=\"col\">Route</th><th scope=\"col\">Kind</th><th scope=\"col\">In use</th><th scope=\"col\">Kept</th><th scope=\"col\">Waiting</th></tr></thead><tbody id=\"poolRows\"></tbody></table></div></section>",
    "<section aria-labelledby=\"certificates\" id=\"certificatePart\" hidden><h2 id=\"certificates\">Certificates</h2><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Certificates\"><table><thead><tr><th scope=\"col\">Names</th><th scope=\"col\">Days left</th></tr></thead><tbody id=\"certificateRows\"></tbody></table></div></section>",
    "</main>"
  ]
script =
  [ "<script>",
    "'use strict';",
    "const at = id => document.getElementById(id);",
    "const base = location.pathname.replace(/\\/+$/, '');",
    "const seen = [];",
    "const number = n => Math.round(n).toLocaleString('en');",
    "const some = n => n === null ? '\\u2013' : number(n);",
    "const kinds = { proxy: 'proxy', fastcgi: 'FastCGI', scgi: 'SCGI', cgi: 'CGI' };",
    "const rate = n => n < 10 ? n.toFixed(1) : number(n);",
    "const size = n => { const units = ['B', 'kB', 'MB', 'GB', 'TB']; let u = 0; while (n >= 1000 && u < 4) { n /= 1000; u++; } return (u ? n.toFixed(1) : Math.round(n)) + '\\u00a0' + units[u]; };",
    "const time = us => us < 1000 ? Math.round(us) + '\\u00a0\\u00b5s' : us < 1e6 ? (us / 1000).toFixed(1) + '\\u00a0ms' : (us / 1e6).toFixed(2) + '\\u00a0s';",
    "const span = s => { const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60; return d ? d + ' d ' + h + ' h' : h ? h + ' h ' + m + ' min' : m ? m + ' min ' + Math.floor(s % 60) + ' s' : Math.floor(s) + ' s'; };",
    "function row(cells) { const tr = document.createElement('tr'); cells.forEach((c, i) => { const td = document.createElement(i ? 'td' : 'th'); if (!i) td.scope = 'row'; [td.textContent, td.className] = [c, ''].flat(); tr.append(td); }); return tr; }",
    "function rows(id, lists) { at(id).replaceChildren(...lists.map(row)); }",
    "function minus(now, then) { const old = new Map(then); return now.map(([b, n]) => [b, n - (old.get(b) || 0)]).filter(([, n]) => n > 0); }",
    "function quantile(buckets, q) { const total = buckets.reduce((s, b) => s + b[1], 0); let left = Math.max(1, Math.ceil(total * q)); for (const [b, n] of buckets) { left -= n; if (left <= 0) return b - 1; } return 0; }",
    "function bars(buckets) {",
    "  const groups = new Map(); for (const [b, n] of buckets) { const g = Math.floor(Math.log2(b - 1 || 1) * 2); groups.set(g, (groups.get(g) || 0) + n); }",
    "  const keys = [...groups.keys()]; if (!keys.length) { at('bars').replaceChildren(); at('from').textContent = 'No requests yet'; at('to').textContent = ''; return; }",
    "  const low = Math.min(...keys), high = Math.max(...keys), most = Math.max(...groups.values()), all = [];",
    "  for (let g = low; g <= high; g++) { const i = document.createElement('i'); i.style.height = 100 * (groups.get(g) || 0) / most + '%'; all.push(i); }",
    "  at('bars').replaceChildren(...all); at('from').textContent = time(2 ** (low / 2)); at('to').textContent = time(2 ** ((high + 1) / 2));",
    "}",
    "function show(d) {",
    "  const t = performance.now() / 1000; seen.push([t, d]); while (seen.length > 11) seen.shift();",
    "  const [t0, f] = seen[0], dt = Math.max(t - t0, 0.001), first = seen.length < 2;",
    "  const per = get => first ? '\\u2013' : get(d) - get(f) < 0 ? '\\u2013' : rate((get(d) - get(f)) / dt);",
    "  at('state').textContent = d.state; at('state').className = 'state ' + (d.state === 'ready' ? 'good' : 'bad');",
    "  at('about').textContent = 'heddle ' + d.version + ', process ' + d.process + (d.processes ? ' and ' + d.processes.serving + ' that serve' + (d.processes.ended ? ' (' + number(d.processes.ended) + ' have ended)' : '') : '') + ', ' + d.cores + (d.cores === 1 ? ' core' : ' cores') + ', up ' + span(d.uptime_seconds);",
    "  at('rate').textContent = per(x => x.requests.total); at('errors').textContent = per(x => x.requests['4xx'] + x.requests['5xx']);",
    "  at('sent').textContent = first ? '\\u2013' : size((d.bytes - f.bytes) / dt);",
    "  at('open').textContent = number(d.connections.open); at('under').textContent = number(d.requests.under_way);",
    "  at('cache').textContent = (d.requests.total ? Math.round(100 * d.cache.replies / d.requests.total) + '\\u00a0%' : '\\u2013') + ' (' + size(d.cache.bytes) + ')';",
    "  at('memory').textContent = d.uses.resident_bytes === undefined ? '\\u2013' : size(d.uses.resident_bytes);",
    "  at('cpu').textContent = first || d.uses.cpu_seconds === undefined ? '\\u2013' : Math.round(100 * (d.uses.cpu_seconds - f.uses.cpu_seconds) / dt) + '\\u00a0%';",
    "  const recent = first ? [] : minus(d.latency_us.buckets, f.latency_us.buckets), all = d.latency_us;",
    "  const line = recent.length ? ['last ' + Math.round(dt) + ' s', ...[0.5, 0.9, 0.99, 1].map(q => time(quantile(recent, q)))] : ['last ' + Math.round(dt) + ' s', '\\u2013', '\\u2013', '\\u2013', '\\u2013'];",
    "  rows('latencies', [line, ['since the start', time(all.p50), time(all.p90), time(all.p99), time(all.max)]]); bars(all.buckets);",
    "  at('bars').setAttribute('aria-label', 'Histogram of latencies since the start: half below ' + time(all.p50) + ', 99 of 100 below ' + time(all.p99));",
    "  rows('routeRows', d.routes.map(r => [r.route, number(r.requests), number(r['4xx']), number(r['5xx']), size(r.bytes), time(r.latency_us.p50), time(r.latency_us.p99), time(r.latency_us.max)]));",
    "  at('upstreamPart').hidden = !d.upstreams.length; rows('upstreamRows', d.upstreams.map(u => [u.server, u.route, u.up ? 'up' : ['left out', 'bad'], some(u.open)]));",
    "  at('poolPart').hidden = !d.pools.length; rows('poolRows', d.pools.map(p => [p.route, kinds[p.kind], number(p.used), p.kind === 'cgi' ? '\\u2013' : number(p.kept), some(p.waiting)]));",
    "  at('certificatePart').hidden = !d.certificates.length; rows('certificateRows', d.certificates.map(c => [c.names.join(', ') || '(no names)', c.days_left < 14 ? [c.days_left.toFixed(1), 'bad'] : c.days_left.toFixed(1)]));",
    "}",
    "async function ask() {",
    "  try { const r = await fetch(base + '/json', { cache: 'no-store' }); if (!r.ok) throw new Error(r.status); show(await r.json()); }",
    "  catch (e) { at('state').textContent = 'no answer'; at('state').className = 'state bad'; }",
    "  setTimeout(next, 1000);",
    "}",
    "function next() { if (document.hidden) document.addEventListener('visibilitychange', ask, { once: true }); else ask(); }",
    "ask();",
    "</script>"
  ]
