{-# LANGUAGE OverloadedStrings #-}

-- | The page of the to-do list: no framework, and nothing from elsewhere.
module Page
  ( page,
  )
where

import Data.ByteString.Lazy qualified as L
import Data.ByteString.Lazy.Char8 qualified as C

-- | HTML, with its style and its script.
page :: L.ByteString
page =
  C.unlines
    [ "<!doctype html>",
      "<html lang=en>",
      "<meta charset=utf-8>",
      "<meta name=viewport content='width=device-width'>",
      "<title>To do</title>",
      "<style>",
      "  body { font: 1.1em/1.5 system-ui, sans-serif; max-width: 32em; margin: 2em auto; padding: 0 1em }",
      "  ul { list-style: none; padding: 0 }",
      "  li { display: flex; gap: .6em; padding: .3em 0; border-bottom: 1px solid #ddd }",
      "  li span { flex: 1; overflow-wrap: anywhere }",
      "  li.done span { text-decoration: line-through; color: #777 }",
      "  #state { color: #777 }",
      "</style>",
      "<h1>To do</h1>",
      "<form><input name=text required autofocus maxlength=500 placeholder='What is next?'> <button>Add</button></form>",
      "<ul></ul>",
      "<p id=state>connecting</p>",
      "<script>",
      "  const list = document.querySelector('ul'), form = document.querySelector('form'), state = document.querySelector('#state')",
      "",
      "  const ask = (method, path, body) =>",
      "    fetch('/api/items' + path, { method, headers: { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body) })",
      "",
      "  const show = items => list.replaceChildren(...items.map(item => {",
      "    const line = document.createElement('li'), text = document.createElement('span'), box = document.createElement('input'), bin = document.createElement('button')",
      "    line.className = item.done ? 'done' : ''",
      "    text.textContent = item.text",
      "    box.type = 'checkbox'",
      "    box.checked = item.done",
      "    box.onchange = () => ask('PUT', '/' + item.id, { done: box.checked })",
      "    bin.textContent = 'Remove'",
      "    bin.onclick = () => ask('DELETE', '/' + item.id)",
      "    line.append(box, text, bin)",
      "    return line",
      "  }))",
      "",
      "  form.onsubmit = event => {",
      "    event.preventDefault()",
      "    ask('POST', '', { text: form.text.value }).then(() => form.reset())",
      "  }",
      "",
      "  const listen = () => {",
      "    const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/live')",
      "    socket.onopen = () => state.textContent = 'live'",
      "    socket.onmessage = event => show(JSON.parse(event.data))",
      "    socket.onclose = () => { state.textContent = 'not connected; trying again'; setTimeout(listen, 1000) }",
      "  }",
      "  listen()",
      "</script>"
    ]
