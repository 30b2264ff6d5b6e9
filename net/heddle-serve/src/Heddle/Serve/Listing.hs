{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Serve.Listing
-- Description : A page for a directory without an index
-- Stability   : internal, exempt from the version policy
--
-- HTML for people and JSON for programs, by Accept. The page is one file: its style is in it, it needs no script, and
-- its columns are sorted by the server.
--
-- Cost: one reading of the directory for each request; nothing is cached.
-- Owner: values.
module Heddle.Serve.Listing
  ( ListingRules (..),
    listingReply,

    -- * Parts, for tests
    listingPage,
    listingJson,
    Order (..),
    Column (..),
    orderOf,
    sortItems,
    humanSize,
    wantsJson,
    jsonString,
  )
where

import Data.Bits ((.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Builder
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.Char (isDigit, ord, toLower)
import Data.Int (Int64)
import Data.List (intersperse, sortBy)
import Data.Ord (comparing)
import Data.Text qualified as Text
import Data.Text.Encoding (decodeUtf8With, encodeUtf8)
import Data.Text.Encoding.Error (lenientDecode)
import Data.Word (Word8)
import Heddle.Http
import Heddle.Http.UriPath
import Heddle.Prim.Errno (Errno)
import Heddle.Serve.Directory
import Heddle.Serve.IsoTime
import Heddle.Serve.OpenFile

-- | What may be listed.
newtype ListingRules = ListingRules
  { -- | Names that begin with a dot, too.
    listsHidden :: Bool
  }

-- | The listing of a directory: its path beneath the root, and the path that was asked for.
--
-- [Blocks]: holds an OS thread.
listingReply :: ListingRules -> Opening -> Request -> ByteString -> UriPath -> IO (Either Errno Reply)
listingReply rules opening request beneath path = do
  accept <- header request HeaderAccept
  order <- orderOf <$> query request
  contents <- readDirectory opening request beneath admits
  pure (page accept order <$> contents)
  where
    -- The same as for requests: see 'Heddle.Http.UriPath.decodePath'.
    admits name = (listsHidden rules || not ("." `B.isPrefixOf` name) || name == ".well-known") && '\\' `C.notElem` name
    page accept order contents
      | maybe False wantsJson accept = reply "application/json" (listingJson order contents)
      | otherwise = reply "text/html; charset=utf-8" (listingPage path order contents)
    reply media body = Whole status200 [Header "Content-Type" media, Header "Vary" "Accept"] (L.toStrict (toLazyByteString body))

-- | Test whether an Accept prefers JSON to HTML.
--
-- >>> map wantsJson ["application/json", "text/html,application/xhtml+xml,*/*;q=0.8", "*/*", "application/json, text/html;q=0.9"]
-- [True,False,False,True]
wantsJson :: ByteString -> Bool
wantsJson accept = weight ["application/json"] > weight ["text/html", "text/*", "*/*"]
  where
    weight kinds = maximum (0 : [q | (kind, q) <- map range (C.split ',' accept), kind `elem` kinds])
    range text =
      let (kind, parameters) = C.break (== ';') text
       in (C.map toLower (C.strip kind), weightIn (map C.strip (C.split ';' (B.drop 1 parameters))))
    weightIn :: [ByteString] -> Int
    weightIn parameters = case [B.drop 2 p | p <- parameters, C.map toLower (B.take 2 p) == "q="] of
      q : _
        | "0." `B.isPrefixOf` q, Just (n, "") <- C.readInt (C.take 3 (B.drop 2 q <> "000")) -> n
        | "0" `B.isPrefixOf` q -> 0
      _ -> 1000

-- Order --------------------------------------------------------------------------

-- | A column, and whether its largest values come first.
data Order = Order !Column !Bool
  deriving stock (Eq, Show)

-- | What can be sorted by.
data Column = ByName | BySize | ByTime
  deriving stock (Bounded, Enum, Eq, Show)

columnName :: Column -> ByteString
columnName = \case ByName -> "name"; BySize -> "size"; ByTime -> "time"

-- | The order that a query asks for, such as @sort=size&order=desc@.
orderOf :: ByteString -> Order
orderOf text = Order column (lookup "order" pairs == Just "desc")
  where
    pairs = [(k, B.drop 1 v) | part <- C.split '&' text, let (k, v) = C.break (== '=') part]
    column = case lookup "sort" pairs of
      Just "size" -> BySize
      Just "time" -> ByTime
      _ -> ByName

-- | Directories first; names without regard to case, and numbers in them by value; equal ones by name.
sortItems :: Order -> [Item] -> [Item]
sortItems (Order column descending) items = sorted directories ++ sorted files
  where
    directories = filter itemDirectory items
    files = filter (not . itemDirectory) items
    -- A name's key is made once, not for each comparison.
    sorted = map snd . sortBy (if descending then flip by <> name else by <> name) . map (\item -> (natural (itemName item), item))
    by = case column of
      ByName -> name
      BySize -> comparing (itemSize . snd)
      ByTime -> comparing (itemModified . snd)
    name = comparing fst <> comparing (itemName . snd)

-- A text whose bytes compare as names do: by pieces, numbers before words, numbers by value without their zeros. No name
-- has a byte 0, or more than 255.
natural :: ByteString -> ByteString
natural = B.concat . pieces
  where
    pieces text
      | B.null text = []
      | B.null digits = let (word, rest) = C.break isDigit text in "\2" : C.map toLower word : "\0" : pieces rest
      | otherwise = let number = C.dropWhile (== '0') digits in "\1" : B.singleton (fromIntegral (B.length number)) : number : pieces after
      where
        (digits, after) = C.span isDigit text

-- JSON ---------------------------------------------------------------------------

-- | The listing for programs: an array of objects.
listingJson :: Order -> Contents -> Builder
listingJson order (Contents items _) = "[" <> mconcat (intersperse "," (map object (sortItems order items))) <> "]\n"
  where
    object item =
      "\n{\"name\":" <> jsonString (itemName item) <> ",\"type\":" <> (if itemDirectory item then "\"directory\"" else "\"file\"")
        <> (if itemDirectory item then mempty else ",\"size\":" <> int64Dec (itemSize item))
        <> ",\"mtime\":\""
        <> byteString (isoTime (itemModified item))
        <> "\",\"url\":"
        <> jsonString (hrefOf item)
        <> "}"

-- | A string. As UTF-8; bytes that are not are replaced. In a listing, the url names the file exactly.
jsonString :: ByteString -> Builder
jsonString text = "\"" <> B.foldr (\b rest -> jsonByte b <> rest) mempty (valid text) <> "\""

jsonByte :: Word8 -> Builder
jsonByte b
  | b == 0x22 = "\\\""
  | b == 0x5C = "\\\\"
  | b < 0x20 || b == 0x7F = "\\u00" <> word8HexFixed b
  | otherwise = word8 b

valid :: ByteString -> ByteString
valid = encodeUtf8 . decodeUtf8With lenientDecode

-- HTML ---------------------------------------------------------------------------

-- | The listing for people.
listingPage :: UriPath -> Order -> Contents -> Builder
listingPage path order@(Order column descending) (Contents items more) =
  mconcat
    [ "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
      escaped (shown (pathRelative path)),
      "</title>\n<style>",
      byteString style,
      "</style>\n</head>\n<body>\n<main>\n<h1>",
      crumbs (filter (not . B.null) (C.split '/' (pathRelative path))),
      "</h1>\n<p class=\"facts\">",
      facts,
      "</p>\n<table>\n<thead><tr>",
      foldMap heading [(ByName, "Name"), (BySize, "Size"), (ByTime, "Modified (UTC)")],
      "</tr></thead>\n<tbody>\n",
      if B.null (pathRelative path) then mempty else "<tr class=\"up\"><td><a href=\"../\">..</a></td><td></td><td></td></tr>\n",
      foldMap row (sortItems order items),
      "</tbody>\n</table>\n",
      if more > 0 then "<p class=\"facts\">" <> intDec more <> " more names are not listed.</p>\n" else mempty,
      "</main>\n</body>\n</html>\n"
    ]
  where
    shown relative = if B.null relative then "/" else "/" <> relative <> "/"
    facts = count (length (filter itemDirectory items)) "directory" "directories" <> ", " <> count files "file" "files" <> (if files > 0 then ", " <> byteString (humanSize total) else mempty)
    files = length (filter (not . itemDirectory) items)
    total = sum (map itemSize (filter (not . itemDirectory) items))
    count :: Int -> Builder -> Builder -> Builder
    count n one many = intDec n <> " " <> (if n == 1 then one else many)
    heading (which, title) =
      mconcat
        [ "<th scope=\"col\"",
          if which == column then " aria-sort=\"" <> (if descending then "descending" else "ascending") <> "\"" else mempty,
          "><a href=\"?sort=",
          byteString (columnName which),
          "&amp;order=",
          if which == column && not descending then "desc" else "asc",
          "\">",
          title,
          "</a></th>"
        ]
    row item =
      mconcat
        [ if itemDirectory item then "<tr class=\"dir\"><td><a href=\"" else "<tr><td><a href=\"",
          byteString (hrefOf item),
          "\">",
          escaped (itemName item),
          if itemDirectory item then "/" else mempty,
          "</a></td><td",
          if itemDirectory item then ">&ndash;" else " title=\"" <> int64Dec (itemSize item) <> " bytes\">" <> byteString (humanSize (itemSize item)),
          "</td><td><time datetime=\"",
          byteString time,
          "\">",
          byteString (B.take 10 time <> " " <> B.take 5 (B.drop 11 time)),
          "</time></td></tr>\n"
        ]
      where
        time = isoTime (itemModified item)

-- The path, each of whose parts leads to its directory.
crumbs :: [ByteString] -> Builder
crumbs parts = link depth "/" <> mconcat [link (depth - i) (part <> "/") | (i, part) <- zip [1 ..] parts]
  where
    depth = length parts
    link :: Int -> ByteString -> Builder
    link up text
      | up == 0 = "<span aria-current=\"page\">" <> escaped text <> "</span>"
      | otherwise = "<a href=\"" <> mconcat (replicate up "../") <> "\">" <> escaped text <> "</a>"

-- A name as a reference relative to the directory. The dot keeps a colon in it from being read as a scheme's end.
hrefOf :: Item -> ByteString
hrefOf item = B.concat ["./", B.concatMap byte (itemName item), if itemDirectory item then "/" else ""]
  where
    byte b
      | isPlain b = B.singleton b
      | otherwise = B.pack [37, hex (b `quot` 16), hex (b .&. 15)]
    hex n = if n < 10 then 48 + n else 55 + n
    isPlain b = (b .|. 0x20 >= 97 && b .|. 0x20 <= 122) || (b >= 48 && b <= 57) || b `B.elem` "-._~!$()*+,;=:@"

-- Text in HTML.
escaped :: ByteString -> Builder
escaped = foldMap char . Text.unpack . decodeUtf8With lenientDecode
  where
    char c = case c of
      '<' -> "&lt;"
      '>' -> "&gt;"
      '&' -> "&amp;"
      '"' -> "&quot;"
      '\'' -> "&#39;"
      -- Control characters, and those that change the direction of the text around them.
      _
        | c < ' ' || (c >= '\DEL' && c < '\xA0') || ord c `elem` ([0x200E, 0x200F, 0x061C] ++ [0x202A .. 0x202E] ++ [0x2066 .. 0x2069]) -> charUtf8 '\xFFFD'
        | otherwise -> charUtf8 c

-- | A number of bytes with three digits, in powers of 1,000.
--
-- >>> map humanSize [0, 999, 1500, 123456789]
-- ["0 B","999 B","1.5 kB","123 MB"]
humanSize :: Int64 -> ByteString
humanSize n
  | n < 1000 = C.pack (show n) <> " B"
  | otherwise = go ["kB", "MB", "GB", "TB", "PB", "EB"] 1000
  where
    go :: [ByteString] -> Int64 -> ByteString
    go units unit = case units of
      name : rest
        | n < 10 * unit - unit `quot` 20, let tenths = (n * 10 + unit `quot` 2) `quot` unit -> C.pack (show (tenths `quot` 10) ++ "." ++ show (tenths `rem` 10)) <> " " <> name
        | n < 1000 * unit - unit `quot` 2 || null rest -> C.pack (show ((n + unit `quot` 2) `quot` unit)) <> " " <> name
        | otherwise -> go rest (unit * 1000)
      [] -> C.pack (show n) <> " B"

style :: ByteString
style =
  B.concat
    [ ":root{--fg:#1c2024;--dim:#60646c;--bg:#fff;--line:#e4e6ea;--over:#f4f6f9;--link:#0b5cad}",
      "@media(prefers-color-scheme:dark){:root{--fg:#e6e8eb;--dim:#9aa0a8;--bg:#15171a;--line:#2b2f35;--over:#1e2126;--link:#7ab8ff}}",
      "*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif}",
      "main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 3rem}h1{font-size:1.3rem;margin:0;overflow-wrap:anywhere}",
      "a{color:var(--link);text-decoration:none}a:hover,a:focus{text-decoration:underline}.facts{color:var(--dim);margin:.25rem 0 1rem}",
      "table{width:100%;border-collapse:collapse}th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line)}",
      "th a{color:var(--dim);font-weight:600}th[aria-sort=ascending] a::after{content:\" \\2191\"}th[aria-sort=descending] a::after{content:\" \\2193\"}",
      "td:first-child{overflow-wrap:anywhere;width:100%}td:nth-child(n+2),th:nth-child(n+2){white-space:nowrap;color:var(--dim);font-variant-numeric:tabular-nums}",
      "td:nth-child(2),th:nth-child(2){text-align:right}tbody tr:hover{background:var(--over)}.dir a{font-weight:600}",
      "@media(max-width:36rem){td:nth-child(3),th:nth-child(3){display:none}}"
    ]
