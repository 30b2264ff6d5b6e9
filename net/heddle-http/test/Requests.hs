{-# LANGUAGE OverloadedStrings #-}

-- | Generators of requests, and ways to feed them to the parser.
module Requests
  ( Feed,
    feedHead,
    withHead,
    cutsOf,
    validHead,
    mutated,
    noise,
    invalidHead,
    withBytes,
  )
where

import Control.Exception (bracket)
import Control.Monad (replicateM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Char (toUpper)
import Data.List (sort)
import Data.Word (Word8)
import Foreign.Marshal.Alloc (free, mallocBytes)
import Foreign.Marshal.Utils (copyBytes, fillBytes)
import Foreign.Ptr (Ptr, castPtr)
import Heddle.Http.Internal (HeadTable, Limits, Parsed (More), newHeadTable, parseHead, startHead)
import Test.QuickCheck

-- | Positions at which the input is cut.
type Feed = [Int]

-- | Run with a copy of the bytes that is exactly as long as they are.
withBytes :: ByteString -> (Ptr Word8 -> Int -> IO a) -> IO a
withBytes bytes action = bracket (mallocBytes (max 1 len)) free $ \buffer -> do
  unsafeUseAsCStringLen bytes $ \(from, _) -> copyBytes buffer (castPtr from) len
  action buffer len
  where
    len = B.length bytes

-- | Parse an input piece by piece. What has not arrived yet is garbage that changes
-- from call to call, so that reading it would show.
withHead :: Limits -> Int -> Feed -> ByteString -> (Ptr Word8 -> HeadTable -> Parsed -> IO a) -> IO a
withHead limits capacity cuts input action =
  bracket (mallocBytes (B.length input + 16)) free $ \buffer -> do
    table <- newHeadTable capacity
    startHead table
    let go garbage = \case
          [] -> parseHead limits buffer (B.length input) table
          cut : later -> do
            arrive buffer garbage cut
            parsed <- parseHead limits buffer cut table
            if parsed == More then go (garbage + 7) later else pure parsed
    parsed <- go 0 (cuts ++ [B.length input])
    action buffer table parsed
  where
    arrive buffer garbage cut = unsafeUseAsCStringLen input $ \(from, len) -> do
      fillBytes buffer garbage (len + 16)
      copyBytes buffer (castPtr from) cut

feedHead :: Limits -> Feed -> ByteString -> IO Parsed
feedHead limits cuts input = withHead limits 100 cuts input (\_ _ parsed -> pure parsed)

-- | Cuts inside an input of this length.
cutsOf :: Int -> Gen Feed
cutsOf len = frequency [(3, sort <$> listOf (choose (0, len))), (1, pure [0 .. len])]

-- | A head that every server must accept.
validHead :: Gen ByteString
validHead = do
  (method, target) <-
    oneof
      [ (,) <$> plainMethod <*> originTarget,
        (,) <$> plainMethod <*> absoluteTarget,
        pure ("OPTIONS", "*"),
        (,) "CONNECT" <$> elements ["example.org:443", "[::1]:80", "10.0.0.1:8080"]
      ]
  version <- elements ["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2"]
  empty <- elements ["", "", "\r\n"]
  others <- listOf header
  host <- hostHeader
  at <- choose (0, length others)
  let (before, after) = splitAt at others
  pure (B.concat ([empty, method, " ", target, " ", version, "\r\n"] ++ before ++ [host] ++ after ++ ["\r\n"]))
  where
    plainMethod = elements ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PURGE", "get", "M-SEARCH", "VERSION-CONTROL"]
    originTarget = do
      segments <- listOf (elements ["/", "/a", "/index.html", "/%20", "/..", "/a|b", "/x=1;y", "/:@"])
      query <- elements ["", "?", "?q=1", "?a/b?c"]
      pure ("/" <> B.concat segments <> query)
    absoluteTarget = do
      scheme <- elements ["http://", "HTTP://", "https://"]
      host <- hostText
      rest <- elements ["", "/", "/a/b?c", "?q", "/?"]
      pure (B.concat [scheme, host, rest])

hostText :: Gen ByteString
hostText = elements ["example.org", "a", "localhost:8080", "[::1]", "[2001:db8::7.8.9.1]:80", "h%41:", "10.0.0.1:65535"]

hostHeader :: Gen ByteString
hostHeader = do
  name <- elements ["Host", "host", "HOST"]
  value <- frequency [(9, hostText), (1, pure "")]
  pure (B.concat [name, ":", value, "\r\n"])

header :: Gen ByteString
header = do
  name <-
    oneof
      [ elements ["Accept", "User-Agent", "Content-Length", "X", "x-forwarded-for", "Access-Control-Request-Headers", "upgrade-insecure-requests", "If-None-Match", "TE", "Connection"],
        C.pack <$> resize 40 (listOf1 (elements "abcXYZ019!#$%&'*+-.^_`|~"))
      ]
  lead <- blank
  value <- resize 60 (listOf (elements (" \t" ++ ['!' .. '~'] ++ ['\x80' .. '\xFF'])))
  trail <- blank
  shout <- arbitrary
  pure (B.concat [if shout then C.map toUpper name else name, ":", lead, C.pack value, trail, "\r\n"])
    `suchThat` (not . hostLike)
  where
    blank = elements ["", " ", "  ", "\t", " \t "]
    hostLike line = C.map toUpper (C.takeWhile (/= ':') line) == "HOST"

-- | A head with a few bytes changed, inserted, dropped or repeated.
mutated :: Gen ByteString -> Gen ByteString
mutated start = do
  times <- choose (1, 3 :: Int)
  original <- start
  go times original
  where
    go 0 input = pure input
    go n input = do
      at <- choose (0, B.length input)
      byte <- interesting
      len <- choose (0, 30)
      let (before, after) = B.splitAt at input
      changed <-
        elements
          [ B.concat [before, B.singleton byte, after],
            B.concat [before, B.singleton byte, B.drop 1 after],
            before <> B.drop 1 after,
            B.concat [before, B.take len after, after],
            before
          ]
      go (n - 1) changed

interesting :: Gen Word8
interesting = frequency [(8, elements (B.unpack "\r\n \t:;,/?#*[]@%AaHh09\0\x7F\x80\xFF.-")), (1, arbitrary)]

-- | Bytes that are mostly those that mean something.
noise :: Gen ByteString
noise = B.pack <$> listOf interesting

-- | Only invalid heads, each with the status that it deserves.
invalidHead :: Gen (String, Int, ByteString)
invalidHead = do
  path <- elements ["/", "/a", "/a?b=c"]
  pad <- elements ["", "Accept: */*\r\n", "X-Pad: " <> C.replicate 70 'p' <> "\r\n"]
  control <- elements (filter (`notElem` [9, 10, 13]) ([0 .. 31] ++ [127]))
  nonToken <- elements (B.unpack "()<>@,;\\\"/[]?={}\x80\xFF")
  digits <- C.pack <$> replicateM 3 (elements ['0' .. '9'])
  let line = B.concat ["GET ", path, " HTTP/1.1\r\n"]
      host = "Host: h\r\n"
      with request fields = B.concat ([request] ++ fields ++ ["\r\n"])
      bad = with line
      c = B.singleton control
      t = B.singleton nonToken
  elements
    [ ("bare LF after the request line", 400, B.concat ["GET ", path, " HTTP/1.1\n", host, "\r\n"]),
      ("bare LF after a header", 400, bad [host, pad, "A: b\n"]),
      ("bare LF at the end", 400, B.concat [line, host, pad, "\n"]),
      ("bare CR in a value", 400, bad [host, pad, "A: b\rc\r\n"]),
      ("bare CR at the end", 400, B.concat [line, host, pad, "\rX\n"]),
      ("two empty lines first", 400, "\r\n\r\n" <> bad [host]),
      ("empty LF line first", 400, "\n" <> bad [host]),
      ("space before the colon", 400, bad [host, pad, "A : b\r\n"]),
      ("tab before the colon", 400, bad [pad, "Host\t: h\r\n"]),
      ("folded header", 400, bad [host, pad, "A: b\r\n c\r\n"]),
      ("folded first header", 400, bad [" A: b\r\n", host]),
      ("no colon", 400, bad [host, pad, "nonsense\r\n"]),
      ("empty name", 400, bad [host, pad, ": v\r\n"]),
      ("control in a name", 400, bad [host, pad, "A" <> c <> "B: v\r\n"]),
      ("control in a known name", 400, bad [host, pad, "Content" <> c <> "Length: 1\r\n"]),
      ("no token in a name", 400, bad [host, pad, "A" <> t <> ": v\r\n"]),
      ("control in a value", 400, bad [host, pad, "A: b" <> c <> "c\r\n"]),
      ("no Host", 400, bad [pad]),
      ("two Hosts", 400, bad [host, pad, host]),
      ("two Hosts in 1.0", 400, with "GET / HTTP/1.0\r\n" [host, pad, host]),
      ("user in Host", 400, bad ["Host: u@h\r\n"]),
      ("space in Host", 400, bad ["Host: a b\r\n"]),
      ("path in Host", 400, bad ["Host: a/b\r\n"]),
      ("port in letters", 400, bad ["Host: a:b\r\n"]),
      ("port too large", 400, bad ["Host: a:65536\r\n"]),
      ("port of six digits", 400, bad ["Host: a:000" <> digits <> "\r\n"]),
      ("port alone", 400, bad ["Host: :80\r\n"]),
      ("open bracket", 400, bad ["Host: [::1\r\n"]),
      ("junk after bracket", 400, bad ["Host: [::1]x\r\n"]),
      ("bad escape in Host", 400, bad ["Host: a%4\r\n"]),
      ("no target", 400, with "GET HTTP/1.1\r\n" [host]),
      ("two spaces", 400, with "GET  / HTTP/1.1\r\n" [host]),
      ("space at the end", 400, with "GET / HTTP/1.1 \r\n" [host]),
      ("space first", 400, with " GET / HTTP/1.1\r\n" [host]),
      ("tab as separator", 400, with "GET\t/ HTTP/1.1\r\n" [host]),
      ("HTTP/0.9", 400, with "GET /\r\n" [host]),
      ("lower-case version", 400, with "GET / http/1.1\r\n" [host]),
      ("long version", 400, with "GET / HTTP/1.10\r\n" [host]),
      ("no version number", 400, with "GET / HTTP/\r\n" [host]),
      ("other protocol", 400, with "GET / HTCPCP/1.0\r\n" [host]),
      ("method not a token", 400, with ("G" <> t <> "T / HTTP/1.1\r\n") [host]),
      ("control in the target", 400, with ("GET /" <> c <> " HTTP/1.1\r\n") [host]),
      ("raw byte in the target's host", 400, with "GET http://\xC3\xA9/ HTTP/1.1\r\n" [host]),
      ("fragment", 400, with "GET /a#b HTTP/1.1\r\n" [host]),
      ("relative target", 400, with "GET a/b HTTP/1.1\r\n" [host]),
      ("other scheme", 400, with "GET ftp://h/ HTTP/1.1\r\n" [host]),
      ("absolute without host", 400, with "GET http:///a HTTP/1.1\r\n" [host]),
      ("absolute with user", 400, with "GET http://u@h/ HTTP/1.1\r\n" [host]),
      ("asterisk with GET", 400, with "GET * HTTP/1.1\r\n" [host]),
      ("CONNECT with a path", 400, with "CONNECT / HTTP/1.1\r\n" [host]),
      ("CONNECT without a port", 400, with "CONNECT h HTTP/1.1\r\n" [host]),
      ("HTTP/2", 505, with "GET / HTTP/2.0\r\n" [host]),
      ("HTTP/2 preface", 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      ("HTTP/0.9 spelt out", 505, with "GET / HTTP/0.9\r\n" [host]),
      ("target too long", 414, with ("GET /" <> C.replicate 8000 'a' <> " HTTP/1.1\r\n") [host]),
      ("request line too long", 414, "GET /" <> C.replicate 20000 'a'),
      ("head too large", 431, bad (host : replicate 20 ("A: " <> C.replicate 900 'a' <> "\r\n"))),
      ("header without end", 431, B.concat [line, host, "A: ", C.replicate 20000 'a']),
      ("too many headers", 431, bad (host : replicate 100 "A: b\r\n"))
    ]
