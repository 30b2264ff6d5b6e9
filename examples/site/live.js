// Asks the server that sent this page about one of its files, and lays out what it answers.
"use strict";

const file = "weave/draft.svg";

// What to ask, and what the answer shows. Each function has the answer and its bytes.
const questions = [
  {
    text: "HEAD",
    request: { method: "HEAD" },
    shows: (answer) => `the file has ${size(answer.headers.get("content-length"))} and the tag ${answer.headers.get("etag")}`,
  },
  {
    text: "GET",
    request: {},
    shows: () => "larger than 64 KB, so sendfile moved it without a copy through the program",
  },
  {
    text: "GET, If-None-Match: the tag",
    request: (tag) => ({ headers: { "If-None-Match": tag } }),
    shows: () => "not changed: no content had to travel",
  },
  {
    text: "GET, Range: bytes=0-99",
    request: { headers: { Range: "bytes=0-99" } },
    shows: (answer) => `Content-Range: ${answer.headers.get("content-range")}`,
  },
  {
    text: "GET, Range: bytes=-1000, If-Range: the tag",
    request: (tag) => ({ headers: { Range: "bytes=-1000", "If-Range": tag } }),
    shows: (answer) => `Content-Range: ${answer.headers.get("content-range")}, as a resumed download asks`,
  },
  {
    text: "GET, Range: bytes=0-9,100-109",
    request: { headers: { Range: "bytes=0-9,100-109" } },
    shows: (answer) => answer.headers.get("content-type").split(";")[0],
  },
  {
    text: "OPTIONS",
    request: { method: "OPTIONS" },
    shows: (answer) => `Allow: ${answer.headers.get("allow")}`,
  },
];

const listed = ["date", "server", "content-type", "content-length", "etag", "last-modified", "accept-ranges"];

function size(bytes) {
  return `${Number(bytes).toLocaleString("en")} bytes`;
}

function element(name, properties, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

async function ask(request) {
  const began = performance.now();
  const answer = await fetch(file, { cache: "no-store", ...request });
  const content = await answer.arrayBuffer();
  return { answer, bytes: content.byteLength, milliseconds: performance.now() - began };
}

async function showAnswers() {
  const rows = document.querySelector("#answers tbody");
  let tag = "";
  for (const { text, request, shows } of questions) {
    const { answer, bytes, milliseconds } = await ask(typeof request === "function" ? request(tag) : request);
    if (!tag) {
      tag = answer.headers.get("etag");
      showFields(answer.headers);
    }
    rows.append(
      element("tr", {},
        element("th", { scope: "row" }, element("code", {}, text)),
        element("td", {}, element("span", { className: answer.status < 400 ? "status" : "status bad" }, `${answer.status}`)),
        element("td", {}, shows(answer)),
        element("td", { className: "right number" }, size(bytes)),
        element("td", { className: "right number" }, `${milliseconds.toFixed(1)} ms`)));
  }
  document.querySelector("#answers").hidden = false;
}

function showFields(headers) {
  const rows = document.querySelector("#fields tbody");
  for (const name of listed) {
    if (headers.has(name)) {
      rows.append(element("tr", {}, element("th", { scope: "row" }, element("code", {}, name)), element("td", {}, element("code", {}, headers.get(name)))));
    }
  }
  document.querySelector("#fields").hidden = false;
}

// A small file, again and again over a kept connection. Most of the time is the browser's own.
async function showPace() {
  const times = [];
  for (let i = 0; i < 24; i++) {
    const began = performance.now();
    await (await fetch("favicon.svg", { cache: "no-store" })).arrayBuffer();
    times.push(performance.now() - began);
  }
  times.sort((a, b) => a - b);
  document.querySelector("#remark").textContent =
    `Then it fetched a small file ${times.length} times, one after the other: ${times[times.length / 2].toFixed(2)} ms in the median,`
    + " from the script's call to the last byte. Nearly all of that is the browser.";
}

async function showPackages() {
  const { packages } = await (await fetch("packages.json")).json();
  document.querySelector("#list").append(
    ...packages.map(({ name, room, on, purpose }) =>
      element("li", { className: "card" },
        element("span", { className: "place" }, `${room}/`),
        element("h3", {}, name),
        element("p", {}, purpose),
        element("p", { className: "note" }, on.length ? `on ${on.join(", ")}` : "on GHC and Linux alone"))));
}

async function show() {
  if (location.protocol !== "file:") {
    document.querySelectorAll(".origin").forEach((node) => { node.textContent = location.origin; });
  }
  try {
    await showPackages();
    await showAnswers();
    await showPace();
    document.documentElement.dataset.live = "done";
  } catch (problem) {
    document.documentElement.dataset.live = "failed";
    document.querySelector("#remark").textContent =
      location.protocol === "file:"
        ? "This page was opened as a file, so there is no server to ask. Run: make serve"
        : `The server could not be asked: ${problem.message}`;
  }
}

show();
