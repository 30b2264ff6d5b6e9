{-# LANGUAGE OverloadedStrings #-}

-- | The chat's page.
module Chat.Page
  ( page,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString.Char8 qualified as C

-- | HTML and its script. What others say is put into the page as text, never as HTML.
page :: ByteString
page =
  C.unlines
    [ "<!doctype html>",
      "<html lang=\"en\">",
      "<meta charset=\"utf-8\">",
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
      "<title>Heddle chat</title>",
      "<style>",
      "  body { font: 16px/1.5 system-ui, sans-serif; max-width: 40em; margin: 2em auto; padding: 0 1em; }",
      "  #lines { border: 1px solid #ccc; height: 50vh; overflow-y: auto; padding: .5em; }",
      "  #lines i { color: #666; }",
      "  form { display: flex; gap: .5em; margin: .5em 0; }",
      "  input { flex: 1; font: inherit; padding: .3em; min-width: 0; }",
      "  button { font: inherit; }",
      "</style>",
      "<h1>Chat</h1>",
      "<form id=\"join\">",
      "  <input id=\"room\" value=\"lobby\" aria-label=\"room\" maxlength=\"40\" required>",
      "  <input id=\"name\" placeholder=\"your name\" aria-label=\"your name\" maxlength=\"40\" required>",
      "  <button>Join</button>",
      "</form>",
      "<div id=\"lines\" role=\"log\"></div>",
      "<form id=\"talk\"><input id=\"text\" aria-label=\"message\" autocomplete=\"off\" maxlength=\"1000\" disabled><button disabled>Send</button></form>",
      "<script>",
      "  const at = id => document.getElementById(id);",
      "  let socket = null;",
      "  function line(who, what) {",
      "    const p = document.createElement('div'), b = document.createElement(who ? 'b' : 'i');",
      "    b.textContent = who ? who + ': ' : what;",
      "    p.append(b, who ? what : '');",
      "    at('lines').append(p);",
      "    p.scrollIntoView();",
      "  }",
      "  function talking(on) { for (const e of at('talk').elements) e.disabled = !on; }",
      "  at('join').onsubmit = event => {",
      "    event.preventDefault();",
      "    if (socket) socket.close();",
      "    const mine = socket = new WebSocket(location.origin.replace(/^http/, 'ws') + '/chat');",
      "    mine.onopen = () => { mine.send(at('room').value + '\\t' + at('name').value); talking(true); at('text').focus(); };",
      "    mine.onmessage = m => {",
      "      const [kind, who, what] = m.data.split('\\t');",
      "      if (kind === 'said') line(who, what); else line('', who + ' has ' + kind + '.');",
      "    };",
      "    mine.onclose = e => {",
      "      line('', 'The connection has ended' + (e.reason ? ': ' + e.reason : '') + '.');",
      "      if (mine === socket) talking(false);",
      "    };",
      "  };",
      "  at('talk').onsubmit = event => {",
      "    event.preventDefault();",
      "    if (at('text').value) socket.send(at('text').value);",
      "    at('text').value = '';",
      "  };",
      "  // A link with a room and a name joins at once: /#lobby/Ada",
      "  const [room, name] = decodeURIComponent(location.hash.slice(1)).split('/');",
      "  if (name) { at('room').value = room; at('name').value = name; at('join').requestSubmit(); }",
      "</script>"
    ]
