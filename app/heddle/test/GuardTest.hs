{-# LANGUAGE OverloadedStrings #-}

-- | Limits of each client, through the program.
module GuardTest (tests) where

import Control.Monad (forM, forM_, replicateM)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Program
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "limits of each client" [rates, rules, forwarded, connections, mistakes, heads]

rates :: TestTree
rates =
  testGroup
    "--rate-limit"
    [ testCase "the burst is answered, on any connection and from the cache; then 429 with Retry-After" $
        serving ["--rate-limit", "1/h:5"] $ \program -> do
          codes <- withClient (addressOf program) $ \client -> replicateM 3 (answerCode <$> get client "")
          codes @?= [200, 200, 200]
          withClient (addressOf program) $ \client -> do
            replicateM 2 (answerCode <$> get client "") >>= (@?= [200, 200])
            refused <- get client ""
            answerCode refused @?= 429
            case C.readInt =<< answerHeader refused "retry-after" of
              Just (n, "") -> assertBool (show n) (n > 3500 && n <= 3600)
              other -> unexpected "a number of seconds" (show other)
            -- Everything counts, not only files.
            say client "POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
            hearAnswer client >>= (@?= 429) . answerCode,
      testCase "HTTP/2 is counted once for a request, also where the cache answers at once" $
        withDirectory $ \d -> do
          writeFile (d </> "index.html") "hello"
          withProgram ["serve", d, "--listen", "https://127.0.0.1:0", "--tls-self-signed", "--rate-limit", "1/h:4"] $ \program -> do
            let url = concat (take 1 (programUrls program))
            ended <- runTool "curl" (["-sSk", "--max-time", "20", "--http2", "-w", "%{http_version} %{http_code}\n"] ++ concat (replicate 6 ["-o", "/dev/null", url]))
            lines (C.unpack (endedOut ended)) @?= replicate 4 "2 200" ++ replicate 2 "2 429",
      testCase "a trusted proxy's clients are counted apart, and what they write themselves is not believed" $
        serving ["--rate-limit", "1/h:1", "--trusted-proxy", "127.0.0.1"] $ \program ->
          withClient (addressOf program) $ \client ->
            forM_ [("203.0.113.1", 200), ("203.0.113.2", 200), ("203.0.113.1", 429), ("198.51.100.9, 203.0.113.2", 429), ("2001:db8::1", 200), ("[2001:db8::2]:443", 429), ("2001:db8:0:1::1", 200)] $ \(who, code) ->
              get client ("X-Forwarded-For: " <> who <> "\r\n") >>= (@?= (who, code)) . (,) who . answerCode,
      testCase "forgedHeaderChoseTheCounter: where two headers disagree, both clients have made the request" $
        serving ["--rate-limit", "1/h:1", "--trusted-proxy", "127.0.0.1"] $ \program ->
          withClient (addressOf program) $ \client ->
            forM_
              [ ("X-Forwarded-For: 203.0.113.1\r\nForwarded: for=198.51.100.1\r\n", 200),
                ("X-Forwarded-For: 203.0.113.1\r\nForwarded: for=198.51.100.2\r\n", 429),
                ("X-Forwarded-For: 203.0.113.2\r\nForwarded: for=198.51.100.1\r\n", 429),
                ("X-Forwarded-For: 203.0.113.3\r\nForwarded: for=203.0.113.3\r\n", 200)
              ]
              $ \(who, code) -> get client who >>= (@?= (who, code)) . (,) who . answerCode,
      testCase "a client that is no proxy cannot be another one" $
        serving ["--rate-limit", "1/h:1"] $ \program ->
          withClient (addressOf program) $ \client -> do
            get client "X-Forwarded-For: 203.0.113.1\r\n" >>= (@?= 200) . answerCode
            get client "X-Forwarded-For: 203.0.113.2\r\n" >>= (@?= 429) . answerCode
    ]

rules :: TestTree
rules =
  testGroup
    "--allow and --deny"
    [ testCase (unwords arguments) $
        serving arguments $ \program -> withClient (addressOf program) $ \client ->
          -- The second one would come from the cache.
          replicateM 2 (answerCode <$> get client "X-Forwarded-For: 203.0.113.1\r\n") >>= (@?= [code, code])
      | (arguments, code) <-
          [ (["--deny", "127.0.0.1"], 403),
            (["--deny", "10.0.0.0/8"], 200),
            (["--allow", "127.0.0.0/8"], 200),
            (["--allow", "10.0.0.0/8"], 403),
            (["--allow", "127.0.0.1", "--deny", "all"], 200),
            (["--deny", "127.0.0.1", "--allow", "all"], 403),
            (["--deny", "203.0.113.0/24"], 200),
            (["--trusted-proxy", "127.0.0.1", "--deny", "203.0.113.0/24"], 403),
            (["--trusted-proxy", "127.0.0.1", "--allow", "203.0.113.1"], 200)
          ]
    ]

forwarded :: TestTree
forwarded = testCase "forwardedWasNotRead: --deny refuses the client that a trusted proxy names" $
  serving ["--trusted-proxy", "127.0.0.1", "--trusted-proxy", "10.0.0.0/8", "--deny", "203.0.113.0/24", "--deny", "2001:db8::/32"] $ \program ->
    withClient (addressOf program) $ \client ->
      forM_ cases $ \(code, fields) -> get client fields >>= (@?= (fields, code)) . (,) fields . answerCode
  where
    cases =
      [(403, "Forwarded: " <> value <> "\r\n") | value <- refused]
        ++ [(200, "Forwarded: " <> value <> "\r\n") | value <- passed]
        ++ [ (403, "Forwarded: for=203.0.113.7\r\nForwarded: for=10.1.1.1\r\n"),
             (200, "Forwarded: for=203.0.113.7\r\nForwarded: for=192.0.2.1\r\n"),
             (403, "X-Forwarded-For: 203.0.113.7,\r\n"),
             (403, "X-Forwarded-For: 203.0.113.7, ,10.1.1.1 ,, \r\n"),
             (403, "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For:\r\n"),
             (403, "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 203.0.113.7\r\n"),
             -- One of the two is forged, and which is not known.
             (403, "X-Forwarded-For: 203.0.113.7\r\nForwarded: for=192.0.2.1\r\n"),
             (403, "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=203.0.113.7\r\n"),
             (403, "X-Forwarded-For: nonsense\r\nForwarded: for=203.0.113.7\r\n"),
             (200, "X-Forwarded-For: 192.0.2.1\r\nForwarded: for=192.0.2.1\r\n")
           ]
    refused =
      [ "for=203.0.113.7",
        "For=203.0.113.7",
        "for=\"203.0.113.7\"",
        "for=\"203.0.113.7:4711\"",
        "for=203.0.113.7:4711;proto=http;by=10.0.0.1",
        "proto=http ; by=x; for=203.0.113.7 ;",
        "for=\"[2001:db8::1]\"",
        "for=\"[2001:db8::1]:4711\";host=\"a,b;for=192.0.2.1\"",
        "for=192.0.2.1, for=203.0.113.7, for=10.1.1.1,for=\"10.2.2.2:80\"",
        "for=203.0.113.7,",
        "for=192.0.2.1, for=203.0.113.7 , ,",
        -- An open quote of the client's does not swallow what a proxy has appended.
        "for=\"192.0.2.1, for=203.0.113.7",
        "for=192.0.2.1;x=\"a\\\", for=203.0.113.7",
        "host=\"a\\\"b,\\\\\";for=203.0.113.7"
      ]
    passed =
      [ "for=192.0.2.1",
        "for=203.0.113.7, for=192.0.2.1",
        "for=203.0.113.7, for=\"[2001:db9::1]\"",
        -- An unknown client counts as the nearest proxy that is known.
        "for=203.0.113.7, for=unknown",
        "for=203.0.113.7, for=_hidden, for=10.1.1.1",
        "for=203.0.113.7, proto=https",
        "for=203.0.113.7;for=203.0.113.7",
        "host=\"for=203.0.113.7\";for=192.0.2.1",
        "xfor=203.0.113.7"
      ]

connections :: TestTree
connections =
  testCase "--max-connections-per-client: further ones are closed and reported, until one ends" $
    serving ["--max-connections-per-client", "2"] $ \program -> do
      let address = addressOf program
      withClient address $ \one -> do
        get one "" >>= (@?= 200) . answerCode
        withClient address $ \two -> do
          get two "" >>= (@?= 200) . answerCode
          withClient address $ \three -> do
            say three "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
            (heard, _) <- hearRest three
            heard @?= ""
          _ <- eventually "a message" (programErr program) ("connections of 127.0.0.1 are closed: it has the 2 that --max-connections-per-client allows" `isInfixOf`)
          get two "" >>= (@?= 200) . answerCode
        -- The server hears of the end a little later.
        _ <- eventually "a connection that is answered" (withClient address $ \three -> say three "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> fst <$> hearRest' three) ("HTTP/1.1 200" `C.isPrefixOf`)
        get one "" >>= (@?= 200) . answerCode
  where
    hearRest' client = finish client >> hearRest client

mistakes :: TestTree
mistakes =
  testGroup
    "mistakes: a sentence"
    [ testCase (unwords arguments) $ do
        ended <- runTool "heddle" (["serve", "/tmp"] ++ free ++ arguments)
        endedCode ended @?= ExitFailure 2
        contains said (endedErr ended)
      | (arguments, said) <-
          [ (["--rate-limit", "10"], "'10' is not a rate such as 10/s"),
            (["--allow", "10.0.0.0/40"], "has no number of bits after the slash"),
            (["--max-connections-per-client", "0"], "'0' is not a number of connections")
          ]
    ]

serving :: [String] -> (Program -> IO a) -> IO a
serving arguments act = withDirectory $ \d -> do
  writeFile (d </> "index.html") "hello"
  withProgram (["serve", d] ++ free ++ arguments) act

get :: Client -> ByteString -> IO Answer
get client fields = do
  say client ("GET / HTTP/1.1\r\nHost: a\r\n" <> fields <> "\r\n")
  hearAnswer client

heads :: TestTree
heads = testCase "headsAndTargetsOfSingleSignOnHadNoOption" . withDirectory $ \d -> do
  writeFile (d </> "index.html") "page"
  let codes options sizes = withProgram (["serve", d] ++ options ++ free) $ \program -> forM sizes $ \(target, cookie) -> withClient (addressOf program) $ \client -> do
        say client (B.concat ["GET /?", C.replicate (target - 2) 'q', " HTTP/1.1\r\nHost: a\r\nCookie: ", C.replicate cookie 'c', "\r\n\r\n"])
        answerCode <$> hearAnswer client
  codes [] [(8000, 10), (8001, 10), (10, 16000), (10, 16400)] >>= (@?= [200, 414, 200, 431])
  codes ["--max-head", "64k", "--max-target", "20k"] [(20480, 10), (20481, 10), (20480, 40000), (10, 65000), (10, 65536)] >>= (@?= [200, 414, 200, 200, 431])
  codes ["--max-head", "4k"] [(10, 4000), (10, 4100), (4100, 10)] >>= (@?= [200, 431, 414])
