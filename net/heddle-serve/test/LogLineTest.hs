{-# LANGUAGE OverloadedStrings #-}

-- | Log lines of real requests, read back by an independent reader.
module LogLineTest (tests) where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Serve.Internal (longestLine)
import Heddle.Testkit.AccessLogLine
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import SiteFixture
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "LogLine"
    [ testCase "golden lines" $ do
        ls <- linesOf (map fst golden)
        map timeless ls @?= map snd golden,
      testCase "HTTP/2" $
        withSite (\d -> B.writeFile (d </> "index.html") "home") $ \running ->
          with running $ \client -> do
            -- The preface, SETTINGS, and HEADERS of GET / with the authority a, ended.
            say client "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
            say client "\0\0\6\1\5\0\0\0\1\x82\x86\x84\x41\1a"
            [line] <- eventually "a line" (siteLines running) ((== 1) . length)
            timeless line @?= "127.0.0.1 - - [] \"GET / HTTP/2.0\" 200 4 \"-\" \"-\"\n",
      testCase "the time is now" $ do
        [line] <- linesOf ["GET / HTTP/1.1\r\nHost: a\r\n\r\n"]
        either fail (const (pure ())) (readEntry (B.init line)),
      testProperty "linesAreWholeAndHarmless: any headers, any target" . withMaxSuccess 200 $
        forAll hostileRequest $ \(target, referer, agent) -> ioProperty $ do
          [line] <- linesOf [B.concat ["GET ", target, " HTTP/1.1\r\nHost: a\r\nReferer: ", referer, "\r\nUser-Agent: ", agent, "\r\n\r\n"]]
          pure $
            wellFormed line $ \entry ->
              counterexample (show entry) $
                (B.concat ["GET ", target, " HTTP/1.1"] === entryRequest entry)
                  .&&. (orDash (trim referer) === entryReferer entry)
                  .&&. (orDash (trim agent) === entryAgent entry),
      testProperty "longFieldsAreCut" . withMaxSuccess 50 $
        forAll (C.pack <$> vectorOf 3000 (elements "a\"\\/")) $ \long -> ioProperty $ do
          [line] <- linesOf [B.concat ["GET /", long, " HTTP/1.1\r\nHost: a\r\nReferer: ", long, "\r\nUser-Agent: ", long, "\r\n\r\n"]]
          pure $
            wellFormed line $ \entry ->
              counterexample (show entry) $
                B.length (entryReferer entry) < 3000 && entryReferer entry `B.isPrefixOf` long && entryAgent entry `B.isPrefixOf` long && not (B.null (entryAgent entry)),
      testProperty "garbageMakesOneHarmlessLine" . withMaxSuccess 200 $
        forAll (B.pack <$> resize 900 (listOf arbitrary)) $ \garbage -> ioProperty $ do
          [line] <- linesOf ["\0" <> garbage <> "\r\n\r\n"]
          pure (wellFormed line (\entry -> entryStatus entry === 400))
    ]

-- What is sent on a connection, and its line, with the time taken out.
golden :: [(ByteString, ByteString)]
golden =
  [ ( "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
      "127.0.0.1 - - [] \"GET / HTTP/1.1\" 200 4 \"-\" \"-\"\n"
    ),
    ( "GET /?q=1 HTTP/1.0\r\nReferer: http://r.example/\r\nUser-Agent: Mozilla/5.0 (X11)\r\n\r\n",
      "127.0.0.1 - - [] \"GET /?q=1 HTTP/1.0\" 200 4 \"http://r.example/\" \"Mozilla/5.0 (X11)\"\n"
    ),
    ( "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n",
      "127.0.0.1 - - [] \"HEAD / HTTP/1.1\" 200 - \"-\" \"-\"\n"
    ),
    ( "GET /?\"\\ HTTP/1.1\r\nHost: a\r\nUser-Agent: a\"b\\c\tt\xE4\xFF\r\n\r\n",
      "127.0.0.1 - - [] \"GET /?\\\"\\\\ HTTP/1.1\" 200 4 \"-\" \"a\\\"b\\\\c\\x09t\\xe4\\xff\"\n"
    ),
    ( "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n",
      "127.0.0.1 - - [] \"GET / HTTP/1.1\" 206 2 \"-\" \"-\"\n"
    ),
    ( "BREW /pot HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
      "127.0.0.1 - - [] \"BREW /pot HTTP/1.1\" 501 235 \"-\" \"-\"\n"
    ),
    ( "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\nUser-Agent: smuggler\r\n\r\n",
      "127.0.0.1 - - [] \"GET / HTTP/1.1\" 400 62 \"-\" \"smuggler\"\n"
    ),
    ( "\x16\x03\x01\"\\ hello\r\nsecond line\r\n\r\n",
      "127.0.0.1 - - [] \"\\x16\\x03\\x01\\\"\\\\ hello\" 400 80 \"-\" \"-\"\n"
    )
  ]

timeless :: ByteString -> ByteString
timeless line = case C.break (== '[') line of
  (before, rest) -> before <> "[" <> C.dropWhile (/= ']') rest

-- The log lines after each of these was sent on its own connection and answered.
linesOf :: [ByteString] -> IO [ByteString]
linesOf inputs = withSite (\d -> B.writeFile (d </> "index.html") "home") $ \running -> do
  let go _ [] = pure ()
      go n (input : rest) = do
        with running $ \client -> do
          say client input
          finish client
          _ <- hearRest client
          pure ()
        _ <- eventually "a line per request" (length <$> siteLines running) (>= n)
        go (n + 1) rest
  go 1 inputs
  siteLines running

wellFormed :: ByteString -> (Entry -> Property) -> Property
wellFormed line check =
  counterexample (show line) $
    C.count '\n' line === 1
      .&&. C.last line === '\n'
      .&&. counterexample "a raw control byte" (B.all (\b -> b >= 0x20 && b < 0x7F) (B.init line))
      .&&. B.length line <= longestLine
      .&&. either (`counterexample` False) check (readEntry (B.init line))

hostileRequest :: Gen (ByteString, ByteString, ByteString)
hostileRequest = (,,) <$> (("/?" <>) <$> text visible) <*> text field <*> text field
  where
    text g = B.pack <$> resize 120 (listOf g)
    -- Bytes that the parser accepts, often quotes and backslashes.
    visible = frequency [(3, elements [0x22, 0x5C]), (5, elements [0x21 .. 0x7E])] `suchThat` (/= 0x23)
    field = frequency [(3, elements [0x22, 0x5C, 0x09]), (3, choose (0x80, 0xFF)), (5, choose (0x20, 0x7E))]

orDash :: ByteString -> ByteString
orDash b = if B.null b then "-" else b

trim :: ByteString -> ByteString
trim = B.dropWhileEnd blank . B.dropWhile blank
  where
    blank b = b == 0x20 || b == 0x09
