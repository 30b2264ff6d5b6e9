{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Trace.Html
-- Description : Tables and text as HTML
-- Stability   : internal
--
-- Cost: linear in the text. Owner: values.
module Heddle.Trace.Html
  ( tableHtml,
    text,
    paragraph,
    bullets,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as Bytes
import Data.ByteString.Builder (Builder, byteString, intDec)
import Data.ByteString.Char8 qualified as Char8
import Data.Char (toLower)
import Heddle.Trace.Tables

-- | A section of the page. A row has its thread's number as an attribute, a cell the number to sort by if that is not
-- its text.
tableHtml :: Table -> Builder
tableHtml table =
  mconcat
    [ "<section>\n<h2 id=\"" <> name <> "-title\">" <> text (tableTitle table) <> "</h2>\n",
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"" <> name <> "-title\">",
      "<table class=\"sorts\" id=\"" <> name <> "\">",
      "<caption><span>" <> text (tableAbout table) <> "</span></caption>\n",
      "<thead><tr>" <> foldMap (heading "col") (tableColumns table) <> "</tr></thead>\n",
      "<tbody>\n" <> foldMap row (tableRows table) <> "</tbody></table></div>\n",
      paragraph (tableMore table),
      "</section>\n"
    ]
  where
    name = byteString (Char8.map (\c -> if c == ' ' then '-' else toLower c) (tableTitle table))
    heading scope label = "<th scope=\"" <> scope <> "\">" <> text label <> "</th>"
    row r =
      ("<tr" <> foldMap (attribute "thread") (rowThread r) <> ">" <> heading "row" (rowName r))
        <> (foldMap cell (rowCells r) <> "</tr>\n")
    cell c = "<td" <> foldMap (attribute "key") (differing c) <> ">" <> text (cellText c) <> "</td>"
    attribute key value = " data-" <> key <> "=\"" <> intDec value <> "\""
    differing (Cell number shown) = [n | Just n <- [number], Char8.pack (show n) /= shown]

-- | Text that stands for itself, also in an attribute's quotes.
text :: ByteString -> Builder
text whole = case Bytes.uncons rest of
  Nothing -> byteString plain
  Just (b, more) -> byteString plain <> "&#" <> intDec (fromIntegral b) <> ";" <> text more
  where
    (plain, rest) = Char8.span (`notElem` ("<>&\"'" :: String)) whole

-- | Nothing if it is empty.
paragraph :: ByteString -> Builder
paragraph whole
  | Bytes.null whole = mempty
  | otherwise = "<p class=\"soft\">" <> text whole <> "</p>\n"

-- | Under a sentence; nothing if there are none.
bullets :: ByteString -> [ByteString] -> Builder
bullets _ [] = mempty
bullets sentence items =
  "<p>" <> text sentence <> "</p>\n<ul>\n" <> foldMap (\item -> "<li>" <> text item <> "</li>\n") items <> "</ul>\n"
