{-# LANGUAGE OverloadedStrings #-}

-- | How @heddle serve@ serves files: headers, pages, listings, compression.
module SiteTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (SomeException, bracket, try)
import Control.Monad (forM, forM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Maybe (fromMaybe)
import GHC.Clock (getMonotonicTime)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket (SockAddr)
import Program
import System.Directory
import System.Environment (lookupEnv)
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.IO (IOMode (..), withBinaryFile)
import System.Posix.Files
import System.Posix.Signals (sigINT, signalProcess)
import System.Posix.User (getEffectiveUserID)
import System.Process (CreateProcess (..), StdStream (..), createProcess, getPid, proc, waitForProcess)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "how files are served"
    [ testGroup "headers" headerTests,
      testGroup "CORS" corsTests,
      testGroup "media types" mediaTests,
      testGroup "the fallback and error pages" pageTests,
      testGroup "compressed siblings" siblingTests,
      testGroup "compression by the server" compressionTests,
      testGroup "listings" listingTests,
      testGroup "symbolic links" linkTests,
      testGroup "limits and the browser" limitTests,
      testGroup "what it costs" costTests,
      testGroup "what cannot begin" refusals
    ]

-- A site, and the options.
serving :: [String] -> (FilePath -> IO ()) -> ((ByteString -> [(ByteString, ByteString)] -> IO Answer) -> FilePath -> IO a) -> IO a
serving more populate act = withDirectory $ \d -> do
  populate d
  withProgram (["serve", d, "--cores", "1"] ++ free ++ more) $ \program -> act (get (addressOf program) "GET") d

get :: SockAddr -> ByteString -> ByteString -> [(ByteString, ByteString)] -> IO Answer
get address method path fields = withClient address $ \client -> do
  say client (C.concat ([method, " ", path, " HTTP/1.1\r\nHost: test\r\n"] ++ [C.concat [n, ": ", v, "\r\n"] | (n, v) <- fields] ++ ["\r\n"]))
  hear client method >>= maybe (unexpected ("an answer for " ++ C.unpack path) "the connection's end") pure

site :: FilePath -> IO ()
site d = do
  mapM_ (createDirectory . (d </>)) ["assets", "plain"]
  B.writeFile (d </> "index.html") "home"
  B.writeFile (d </> "assets" </> "app.js") "script"
  B.writeFile (d </> "plain" </> "x.txt") "text"
  B.writeFile (d </> "404.html") "lost"

-- A header's values, in order.
values :: Answer -> ByteString -> [ByteString]
values answer name = [v | (n, v) <- answerHeaders answer, n == name]

headerTests :: [TestTree]
headerTests =
  [ testCase "--header and --cache-control, by path, cached or not, and in 304, 206, 404, 405 and redirections" $
      serving ["--header", "**=X-All: a", "--header", "*.js=X-Script:s", "--cache-control", "/assets/**=max-age=99", "--cache-control", "*.html=no-cache"] site $ \ask _ -> do
        forM_ [1 :: Int, 2] $ \_ -> do
          script <- ask "/assets/app.js" []
          answersWith 200 "script" script
          map (values script) ["x-all", "x-script", "cache-control"] @?= [["a"], ["s"], ["max-age=99"]]
          -- The index is matched by its own name, too.
          home <- ask "/" []
          map (values home) ["x-all", "x-script", "cache-control"] @?= [["a"], [], ["no-cache"]]
          tag <- maybe (unexpected "an ETag" (show script)) pure (answerHeader script "etag")
          unchanged <- ask "/assets/app.js" [("If-None-Match", tag)]
          answerCode unchanged @?= 304
          values unchanged "cache-control" @?= ["max-age=99"]
          part <- ask "/assets/app.js" [("Range", "bytes=0-1")]
          answersWith 206 "sc" part
          values part "cache-control" @?= ["max-age=99"]
        forM_ [("/assets/nothing", 404), ("/assets", 301), ("/%zz", 400)] $ \(path, code) -> do
          answer <- ask path []
          answerCode answer @?= code
          values answer "x-all" @?= ["a"]
        -- A cache must not keep for long that something is missing.
        missing <- ask "/assets/nothing" []
        values missing "cache-control" @?= [],
    testCase "the last rule for a header counts, and an empty value removes it" $
      serving ["--security-headers", "--header", "**=X-A:1", "--header", "/plain/*=X-A:2", "--header", "/plain/*=x-frame-options:"] site $ \ask _ -> do
        home <- ask "/" []
        map (values home) ["x-a", "x-frame-options", "x-content-type-options"] @?= [["1"], ["SAMEORIGIN"], ["nosniff"]]
        plain <- ask "/plain/x.txt" []
        map (values plain) ["x-a", "x-frame-options", "x-content-type-options"] @?= [["2"], [], ["nosniff"]],
    testCase "over HTTP/2, by curl" $
      withDirectory $ \d -> do
        site d
        withProgram (["serve", d, "--header", "**=X-All:a", "--header", "**=Server:other"] ++ free) $ \program -> forM_ [1 :: Int, 2] $ \_ -> do
          ended <- runTool "curl" ["-sSi", "--http2-prior-knowledge", head (programUrls program)]
          contains "x-all: a" (C.unpack (endedOut ended))
          contains "server: other" (C.unpack (endedOut ended))
  ]

corsTests :: [TestTree]
corsTests =
  [ testCase "*: every reply may be read, and a preflight is answered" $
      withSite ["--cors", "*"] $ \address -> do
        home <- get address "GET" "/" []
        values home "access-control-allow-origin" @?= ["*"]
        missing <- get address "GET" "/nothing" []
        values missing "access-control-allow-origin" @?= ["*"]
        preflight <- get address "OPTIONS" "/" [("Origin", "https://a.example"), ("Access-Control-Request-Method", "GET"), ("Access-Control-Request-Headers", "x-mine")]
        answerCode preflight @?= 204
        map (values preflight) ["access-control-allow-origin", "access-control-allow-headers", "access-control-allow-methods"] @?= [["*"], ["x-mine"], ["GET, HEAD, OPTIONS"]],
    testCase "several origins: each is told its own name, others nothing, cached or not" $
      withSite ["--cors", "https://a.example", "--cors", "http://b.example:81"] $ \address ->
        forM_ [1 :: Int, 2] $ \_ -> do
          forM_ ["https://a.example", "http://b.example:81"] $ \origin -> do
            answer <- get address "GET" "/" [("Origin", origin)]
            answersWith 200 "home" answer
            map (values answer) ["access-control-allow-origin", "vary"] @?= [[origin], ["Origin"]]
          forM_ [[("Origin", "https://c.example")], []] $ \fields -> do
            answer <- get address "GET" "/" fields
            map (values answer) ["access-control-allow-origin", "vary"] @?= [[], ["Origin"]],
    testCase "without --cors: nothing" $
      withSite [] $ \address -> do
        answer <- get address "OPTIONS" "/" [("Origin", "https://a.example"), ("Access-Control-Request-Method", "GET")]
        map (values answer) ["access-control-allow-origin", "access-control-allow-methods"] @?= [[], []]
  ]
  where
    withSite more act = withDirectory $ \d -> site d >> withProgram (["serve", d, "--cores", "1"] ++ free ++ more) (act . addressOf)

mediaTests :: [TestTree]
mediaTests =
  [ testCase "--mime adds and replaces types, with or without the dot, in any case" $
      serving ["--mime", "odd=model/odd", "--mime", ".TXT=text/x-mine; charset=latin1"] (\d -> site d >> B.writeFile (d </> "a.ODD") "1") $ \ask _ ->
        forM_ [("/a.ODD", "model/odd"), ("/plain/x.txt", "text/x-mine; charset=latin1"), ("/", "text/html; charset=utf-8")] $ \(path, media) -> do
          answer <- ask path []
          answerHeader answer "content-type" @?= Just media
  ]

pageTests :: [TestTree]
pageTests =
  [ testCase "--spa: the root's index for what is not there, with its own headers and conditions" $
      serving ["--spa", "--cache-control", "/index.html=no-cache"] site $ \ask d -> do
        forM_ ["/app/route", "/app/route?q", "/.hidden", "/plain/", "/x.js", "/app/route"] $ \path -> do
          answer <- ask path []
          answersWith 200 "home" answer
          values answer "cache-control" @?= ["no-cache"]
        tag <- ask "/a" [] >>= \a -> maybe (unexpected "an ETag" (show a)) pure (answerHeader a "etag")
        unchanged <- ask "/b" [("If-None-Match", tag)]
        answerCode unchanged @?= 304
        -- Files are still files, and what is refused is refused.
        ask "/plain/x.txt" [] >>= answersWith 200 "text"
        bad <- ask "/%zz" []
        answerCode bad @?= 400
        -- A new version is seen.
        B.writeFile (d </> "index.html") "home two"
        void (eventually "the new index" (answerBody <$> ask "/app/route" []) (== "home two"))
        -- Without the index there is nothing to fall back to.
        removeFile (d </> "index.html")
        void (eventually "403 or 404" (answerCode <$> ask "/app/route" []) (`elem` [403, 404])),
    testCase "--error-page: the site's page with the error's status, also by HEAD; what has no page keeps its sentence" $
      withDirectory $ \d -> do
        site d
        withProgram (["serve", d, "--cores", "1", "--error-page", "404=404.html", "--error-page", "405=/plain/x.txt"] ++ free) $ \program -> do
          let ask = get (addressOf program)
          forM_ [1 :: Int, 2] $ \_ -> do
            answer <- ask "GET" "/nothing" []
            answersWith 404 "lost" answer
            answerHeader answer "content-type" @?= Just "text/html; charset=utf-8"
            values answer "etag" @?= []
          headOnly <- ask "HEAD" "/nothing" []
          (answerCode headOnly, answerHeader headOnly "content-length") @?= (404, Just "4")
          posted <- ask "POST" "/" []
          answersWith 405 "text" posted
          values posted "allow" @?= ["GET, HEAD, OPTIONS"]
          forbidden <- ask "GET" "/plain/" []
          answerCode forbidden @?= 403
          -- The page can be changed, and go.
          B.writeFile (d </> "404.html") "lost two"
          void (eventually "the new page" (answerBody <$> ask "GET" "/nothing" []) (== "lost two"))
          removeFile (d </> "404.html")
          void (eventually "the server's sentence" (answerBody <$> ask "GET" "/nothing" []) ("nothing at this address" `B.isInfixOf`))
  ]

-- A text that compresses well.
numbers :: Int -> ByteString
numbers n = C.unlines (map (C.pack . show) [1 .. n])

siblingTests :: [TestTree]
siblingTests =
  [ testCase "by Accept-Encoding with its weights; Vary, tags and ranges of what is sent" $
      serving ["--compression", "static"] siblings $ \ask _ -> do
        let rows =
              [ ("br", "B", "br"),
                ("gzip", "G", "gzip"),
                ("x-gzip", "G", "gzip"),
                ("zstd", "Z", "zstd"),
                ("gzip, deflate, br, zstd", "B", "br"),
                ("gzip, zstd", "Z", "zstd"),
                ("gzip;q=1.0, br;q=0.5", "G", "gzip"),
                ("BR;Q=0.1,zstd;q=0.2 , gzip;q=0.05", "Z", "zstd"),
                ("br;q=0, gzip", "G", "gzip"),
                ("*", "B", "br"),
                ("*;q=0.5, br;q=0", "Z", "zstd"),
                ("identity, gzip;q=0.5", "plain", ""),
                ("deflate", "plain", ""),
                ("br;q=0", "plain", ""),
                ("br;q=x", "plain", ""),
                ("", "plain", "")
              ]
        forM_ (rows ++ rows) $ \(accepted, content, coding) -> do
          answer <- ask "/a.txt" [("Accept-Encoding", accepted)]
          answersWith 200 (sizeOf content) answer
          map (values answer) ["content-encoding", "vary", "content-type"] @?= [[coding | not (B.null coding)], ["Accept-Encoding"], ["text/plain; charset=utf-8"]]
        none <- ask "/a.txt" []
        answersWith 200 (sizeOf "plain") none
        tags <- forM ["br", "gzip", "zstd", ""] $ \accepted -> do
          answer <- ask "/a.txt" [("Accept-Encoding", accepted)]
          tag <- maybe (unexpected "an ETag" (show answer)) pure (answerHeader answer "etag")
          unchanged <- ask "/a.txt" [("Accept-Encoding", accepted), ("If-None-Match", tag)]
          answerCode unchanged @?= 304
          map (values unchanged) ["vary", "etag"] @?= [["Accept-Encoding"], [tag]]
          pure tag
        length (dedupe tags) @?= 4
        -- A tag of another coding is another version.
        other <- ask "/a.txt" [("Accept-Encoding", "br"), ("If-None-Match", tags !! 1)]
        answerCode other @?= 200
        part <- ask "/a.txt" [("Accept-Encoding", "gzip"), ("Range", "bytes=1-2")]
        answersWith 206 (B.take 2 (B.drop 1 (sizeOf "G"))) part
        map (values part) ["content-range", "content-encoding"] @?= [["bytes 1-2/" <> C.pack (show (B.length (sizeOf "G")))], ["gzip"]]
        -- If-Range with another coding's tag asks for the whole.
        whole <- ask "/a.txt" [("Accept-Encoding", "gzip"), ("Range", "bytes=1-2"), ("If-Range", head tags)]
        answersWith 200 (sizeOf "G") whole,
    testCase "large files, an index, and the path of the sibling itself" $
      serving ["--compression", "static"] siblings $ \ask _ -> do
        large <- ask "/large.txt" [("Accept-Encoding", "gzip, br")]
        answersWith 200 (C.replicate 100000 'L') large
        values large "content-encoding" @?= ["gzip"]
        part <- ask "/large.txt" [("Accept-Encoding", "gzip, br"), ("Range", "bytes=0-4")]
        answersWith 206 "LLLLL" part
        home <- ask "/" [("Accept-Encoding", "br")]
        answersWith 200 "home in br" home
        values home "content-encoding" @?= ["br"]
        direct <- ask "/a.txt.gz" [("Accept-Encoding", "gzip")]
        answersWith 200 (sizeOf "G") direct
        map (values direct) ["content-encoding", "vary"] @?= [[], []],
    testCase "a sibling without its file is nothing; one that is older than it is stale; images have none" $
      serving ["--compression", "static"] siblings $ \ask d -> do
        alone <- ask "/alone.txt" [("Accept-Encoding", "gzip")]
        answerCode alone @?= 404
        stale <- ask "/stale.txt" [("Accept-Encoding", "gzip")]
        answersWith 200 "new" stale
        image <- ask "/i.png" [("Accept-Encoding", "gzip")]
        answersWith 200 "image" image
        values image "vary" @?= []
        -- Siblings that come, change and go are seen.
        ask "/late.txt" [("Accept-Encoding", "br, gzip")] >>= answersWith 200 "late"
        let becomes content = void (eventually (show content) (answerBody <$> ask "/late.txt" [("Accept-Encoding", "br, gzip")]) (== content))
        B.writeFile (d </> "late.txt.gz") "late in gzip"
        becomes "late in gzip"
        B.writeFile (d </> "late.txt.br") "late in br"
        becomes "late in br"
        removeFile (d </> "late.txt.br")
        becomes "late in gzip"
        removeFile (d </> "late.txt.gz")
        becomes "late"
        createDirectory (d </> "late.txt.gz")
        becomes "late",
    testCase "off: files as they are" $
      serving [] siblings $ \ask _ -> do
        answer <- ask "/a.txt" [("Accept-Encoding", "gzip, br")]
        answersWith 200 (sizeOf "plain") answer
        map (values answer) ["content-encoding", "vary"] @?= [[], []]
  ]
  where
    sizeOf content = B.concat (replicate 3 content)
    dedupe = foldr (\x seen -> if x `elem` seen then seen else x : seen) []
    siblings d = do
      let put name = B.writeFile (d </> name)
      mapM_ (\(name, content) -> put name (sizeOf content)) [("a.txt", "plain"), ("a.txt.br", "B"), ("a.txt.gz", "G"), ("a.txt.zst", "Z")]
      put "large.txt" (C.replicate 200000 'x')
      put "large.txt.gz" (C.replicate 100000 'L')
      put "index.html" "home"
      put "index.html.br" "home in br"
      put "alone.txt.gz" "alone"
      put "stale.txt.gz" "old"
      setFileTimes (d </> "stale.txt.gz") 1000000000 1000000000
      put "stale.txt" "new"
      put "i.png" "image"
      put "i.png.gz" "not an image"
      put "late.txt" "late"

compressionTests :: [TestTree]
compressionTests =
  [ testCase "gzip, br and zstd, which curl and zstd can read; kept, with a tag of each coding's own" $
      withDirectory $ \d -> do
        B.writeFile (d </> "n.txt") (numbers 5000)
        B.writeFile (d </> "big.json") (numbers 200000)
        withProgram (["serve", d, "--cores", "1", "--compression", "on"] ++ free) $ \program -> forM_ ["/n.txt", "/big.json"] $ \path -> do
          content <- B.readFile (d ++ path)
          tags <- forM ["gzip", "br", "zstd"] $ \coding -> do
            first <- get (addressOf program) "GET" (C.pack path) [("Accept-Encoding", C.pack coding)]
            values first "content-encoding" @?= [C.pack coding]
            values first "vary" @?= ["Accept-Encoding"]
            assertBool "smaller" (B.length (answerBody first) < B.length content `div` 2)
            second <- get (addressOf program) "GET" (C.pack path) [("Accept-Encoding", C.pack coding)]
            answerBody second @?= answerBody first
            part <- get (addressOf program) "GET" (C.pack path) [("Accept-Encoding", C.pack coding), ("Range", "bytes=10-19")]
            answersWith 206 (B.take 10 (B.drop 10 (answerBody first))) part
            B.writeFile (d </> "packed") (answerBody first)
            let (tool, arguments) = case coding of
                  "gzip" -> ("gzip", ["-dc"])
                  "br" -> ("brotli", ["-dc"])
                  _ -> ("zstd", ["-qdc"])
            unpacked <- runTool "sh" ["-c", unwords (tool : arguments) ++ " < " ++ d </> "packed"]
            assertBool (coding ++ " unpacks to the file") (endedOut unpacked == content)
            maybe (unexpected "an ETag" "none") pure (answerHeader first "etag")
          length (foldr (\x seen -> if x `elem` seen then seen else x : seen) [] tags) @?= 3
          curled <- runTool "curl" ["-sS", "--compressed", head (programUrls program) ++ path]
          assertBool "curl" (endedOut curled == content)
          -- By the tag of the coding, a 304.
          unchanged <- get (addressOf program) "GET" (C.pack path) [("Accept-Encoding", "gzip"), ("If-None-Match", head tags)]
          answerCode unchanged @?= 304,
    testCase "not what is small, compressed, too large or gets no smaller; siblings come first; a change is seen" $
      serving ["--compression", "on"] fill $ \ask d -> do
        forM_ ["/small.txt", "/i.png", "/x.gz", "/huge.txt", "/noise.txt", "/noise.txt", "//n.txt"] $ \path -> do
          answer <- ask path [("Accept-Encoding", "gzip")]
          answerCode answer @?= 200
          values answer "content-encoding" @?= []
        sibling <- ask "/s.txt" [("Accept-Encoding", "gzip, br")]
        answersWith 200 "a sibling" sibling
        first <- ask "/n.txt" [("Accept-Encoding", "gzip")]
        values first "content-encoding" @?= ["gzip"]
        plain <- ask "/n.txt" []
        answersWith 200 (numbers 1000) plain
        B.writeFile (d </> "n.txt") (numbers 2000)
        void (eventually "the new version" (ask "/n.txt" [("Accept-Encoding", "gzip")]) (\a -> answerHeader a "etag" /= answerHeader first "etag" && values a "content-encoding" == ["gzip"])),
    testCase "many clients at once: each gets the file, compressed or not" $
      withDirectory $ \d -> do
        forM_ [1 :: Int .. 8] $ \i -> B.writeFile (d </> show i ++ ".txt") (numbers (20000 + i))
        withProgram (["serve", d, "--cores", "2", "--compression", "on"] ++ free) $ \program -> do
          let url = head (programUrls program)
          done <- forM [1 :: Int .. 8] $ \i -> do
            result <- newEmptyMVar
            _ <-
              forkIO
                ( try
                    ( forM_ [1 .. 8] $ \j -> do
                        let name = show ((i + j) `mod` 8 + 1) ++ ".txt"
                        ended <- runTool "curl" ["-sS", "--compressed", url ++ "/" ++ name]
                        content <- B.readFile (d </> name)
                        unless (endedOut ended == content) (unexpected ("the content of " ++ name) (show (B.length (endedOut ended))))
                    )
                    >>= putMVar result
                )
            pure result
          forM_ done $ \result -> readMVar result >>= either (\e -> unexpected "a client to succeed" (show (e :: SomeException))) pure
  ]
  where
    fill d = do
      B.writeFile (d </> "small.txt") (C.replicate 1023 'x')
      B.writeFile (d </> "i.png") (C.replicate 5000 'x')
      B.writeFile (d </> "x.gz") (C.replicate 5000 'x')
      B.writeFile (d </> "huge.txt") (C.replicate 5000000 'x')
      B.writeFile (d </> "noise.txt") (B.pack (take 100000 (map (fromIntegral . (`div` 65536)) (iterate (\x -> (x * 1103515245 + 12345) `mod` 2147483648) (42 :: Int)))))
      B.writeFile (d </> "n.txt") (numbers 1000)
      B.writeFile (d </> "s.txt") (numbers 1000)
      B.writeFile (d </> "s.txt.gz") "a sibling"

listingTests :: [TestTree]
listingTests =
  [ testCase "sorted, with sizes and dates; names are escaped; only what would be served" $
      serving ["--autoindex"] things $ \ask _ -> do
        answer <- ask "/list/" []
        answerCode answer @?= 200
        map (values answer) ["content-type", "vary"] @?= [["text/html; charset=utf-8"], ["Accept"]]
        let page = C.unpack (answerBody answer)
        forM_ ["href=\"./a%26%3Cb%3E.txt\">a&amp;&lt;b&gt;.txt</a>", "1.5 kB", "2001-09-09 01:46", "href=\"../\"", "prefers-color-scheme:dark", "href=\"./sub/\">sub/</a>", "href=\"./%C3%BC.txt\""] $ \part -> contains part page
        -- A page of its own: nothing else is loaded.
        forM_ ["<script", "src=", "url(", "@import", "<link", ".hidden", ">out<", ">fifo<", "unreadable-by-name"] $ \part -> assertBool part (not (C.pack part `B.isInfixOf` answerBody answer))
        names answer >>= (@?= ["sub/", "a&amp;&lt;b&gt;.txt", "in", "n2.txt", "n10.txt", "\195\188.txt"])
        ask "/list/?sort=size&order=desc" [] >>= names >>= (@?= ["sub/", "n10.txt", "\195\188.txt", "n2.txt", "a&amp;&lt;b&gt;.txt", "in"])
        ask "/list/?sort=time" [] >>= names >>= (@?= "n2.txt") . (!! 1)
        -- Each link leads to a file.
        forM_ ["/list/a%26%3Cb%3E.txt", "/list/in", "/list/%C3%BC.txt"] $ \path -> ask path [] >>= \a -> answerCode a @?= 200,
    testCase "JSON for clients that prefer it, which jq's kin can read" $
      serving ["--autoindex"] things $ \ask d -> do
        answer <- ask "/list/" [("Accept", "application/json")]
        map (values answer) ["content-type", "vary"] @?= [["application/json"], ["Accept"]]
        B.writeFile (d </> "out.json") (answerBody answer)
        parsed <- runTool "python3" ["-c", "import json,sys; print([(x['name'],x['type'],x.get('size'),x['mtime'][:4]) for x in json.load(open(sys.argv[1]))][:3])", d </> "out.json"]
        endedErr parsed @?= ""
        contains "('sub', 'directory', None, '20" (C.unpack (endedOut parsed))
        contains "('a&<b>.txt', 'file', 4, " (C.unpack (endedOut parsed))
        browser <- ask "/list/" [("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")]
        values browser "content-type" @?= ["text/html; charset=utf-8"],
    testCase "an index comes first; --hidden lists what begins with a dot; off: 403" $ do
      serving ["--autoindex", "--hidden", "--header", "**=X-A:b"] things $ \ask _ -> do
        ask "/" [] >>= answersWith 200 "home"
        answer <- ask "/list/" []
        contains ".hidden" (C.unpack (answerBody answer))
        values answer "x-a" @?= ["b"]
      serving [] things $ \ask _ -> ask "/list/" [] >>= \a -> answerCode a @?= 403,
    testCase "a directory that may not be read: 403 (root may read every one)" $
      serving ["--autoindex"] (\d -> things d >> setFileMode (d </> "list") 0o111) $ \ask d -> do
        user <- getEffectiveUserID
        answer <- ask "/list/" []
        setFileMode (d </> "list") 0o755
        answerCode answer @?= (if user == 0 then 200 else 403),
    testCase "2,000 files" $
      serving ["--autoindex"] (\d -> forM_ [1 :: Int .. 2000] $ \i -> B.writeFile (d </> show i) "") $ \ask _ -> do
        listed <- ask "/" [] >>= names
        length listed @?= 2000
        take 3 listed @?= ["1", "2", "3"]
  ]
  where
    -- The names in the first column, in order.
    names answer = pure (filter (/= "..") (map (C.takeWhile (/= '<') . B.drop 1 . C.dropWhile (/= '>')) (drop 1 (pieces "<td><a " (answerBody answer)))))
    things d = do
      mapM_ (createDirectory . (d </>)) ["list", "list/sub"]
      B.writeFile (d </> "index.html") "home"
      B.writeFile (d </> "list" </> "a&<b>.txt") "four"
      B.writeFile (d </> "list" </> "n10.txt") (C.replicate 1500 'x')
      B.writeFile (d </> "list" </> "n2.txt") "second"
      setFileTimes (d </> "list" </> "n2.txt") 1000000000 1000000000
      B.writeFile (d </> "list" </> "\252.txt") (C.replicate 20 'x')
      B.writeFile (d </> "list" </> ".hidden") ""
      createSymbolicLink "a&<b>.txt" (d </> "list" </> "in")
      createSymbolicLink "/etc/passwd" (d </> "list" </> "out")
      createNamedPipe (d </> "list" </> "fifo") 0o644

-- A text between separators.
pieces :: ByteString -> ByteString -> [ByteString]
pieces separator text = case B.breakSubstring separator text of
  (piece, rest)
    | B.null rest -> [piece]
    | otherwise -> piece : pieces separator (B.drop (B.length separator) rest)

linkTests :: [TestTree]
linkTests =
  [ testCase "a link that leads out: 403; with --follow-symlinks its file, also by a directory, and in a listing" $
      withDirectory $ \outside -> do
        B.writeFile (outside </> "x.txt") "outside"
        let populate d = createDirectory (d </> "list") >> createSymbolicLink outside (d </> "dir") >> createSymbolicLink (outside </> "x.txt") (d </> "list" </> "x.txt")
        serving ["--autoindex"] populate $ \ask _ -> do
          forM_ ["/dir/x.txt", "/list/x.txt"] $ \path -> ask path [] >>= \a -> answerCode a @?= 403
          listed <- ask "/list/" []
          assertBool "not listed" (not ("x.txt" `B.isInfixOf` answerBody listed))
        serving ["--autoindex", "--follow-symlinks"] populate $ \ask _ -> do
          forM_ ["/dir/x.txt", "/list/x.txt", "/dir/x.txt"] $ \path -> ask path [] >>= answersWith 200 "outside"
          listed <- ask "/list/" []
          assertBool "listed" ("x.txt" `B.isInfixOf` answerBody listed)
          -- Dots still lead nowhere.
          above <- ask "/dir/../../etc/passwd" []
          answerCode above @?= 404
  ]

-- The number of the program's descriptors.
descriptors :: Program -> IO Int
descriptors program = length <$> listDirectory ("/proc/" ++ show (programPid program) ++ "/fd")

costTests :: [TestTree]
costTests =
  [ testCase "no descriptor is left after any kind of reply" $
      withDirectory $ \d -> do
        site d
        B.writeFile (d </> "n.txt") (numbers 20000)
        B.writeFile (d </> "s.txt") (numbers 30000)
        B.writeFile (d </> "s.txt.gz") "a sibling"
        B.writeFile (d </> "stale.txt.gz") "old"
        setFileTimes (d </> "stale.txt.gz") 1000000000 1000000000
        B.writeFile (d </> "stale.txt") (numbers 30000)
        createSymbolicLink "/etc/passwd" (d </> "out")
        createNamedPipe (d </> "fifo") 0o644
        withProgram (["serve", d, "--cores", "1", "--compression", "on", "--autoindex", "--error-page", "404=404.html", "--error-page", "403=404.html"] ++ free) $ \program -> do
          let each = forM_ ["/", "/n.txt", "/s.txt", "/stale.txt", "/assets/", "/assets", "/nothing", "/out", "/fifo", "/n.txt/", "/%zz", "//n.txt"] $ \path ->
                forM_ ["", "gzip", "br, gzip", "zstd;q=0.5, br;q=0.1"] $ \accepted -> forM_ [[], [("Range", "bytes=1-5")], [("If-Match", "\"x\"")], [("Range", "bytes=99999999-")]] $ \more ->
                  get (addressOf program) "GET" path (("Accept-Encoding", accepted) : more)
          each
          before <- eventually "the first round's connections to close" (descriptors program) (const True)
          forM_ [1 :: Int .. 5] $ const each
          void (eventually ("at most " ++ show before ++ " descriptors") (descriptors program) (<= before)),
    testCase "a hit is two system calls, whatever the options: read, and send" $
      withDirectory $ \d -> do
        site d
        B.writeFile (d </> "s.txt") (numbers 100)
        B.writeFile (d </> "s.txt.gz") "a sibling"
        withProgram (["serve", d, "--cores", "1", "--compression", "on", "--security-headers", "--header", "**=X-A:b", "--cors", "https://a.example", "--cors", "https://b.example"] ++ free) $ \program -> withClient (addressOf program) $ \client -> do
          let request = "GET /s.txt HTTP/1.1\r\nHost: a\r\nOrigin: https://b.example\r\nAccept-Encoding: gzip, deflate, br\r\n\r\n"
              ask = say client request >> hearAnswer client >>= answersWith 200 "a sibling"
              counts = "sendto,recvfrom,read,openat2,newfstatat,fstat,close,pread64,preadv2"
          -- A first round finds strace attached.
          ask
          took <- tracing d counts program $ do
            _ <- eventually "strace to be attached" (ask >> traced d) (any ("sendto(" `B.isInfixOf`))
            before <- length . filter ("sendto(" `B.isInfixOf`) <$> traced d
            forM_ [1 :: Int .. 200] $ const ask
            void (eventually "200 more replies in the trace" (length . filter ("sendto(" `B.isInfixOf`) <$> traced d) (>= before + 200))
          ls <- traced d
          let count name = length (filter ((name <> "(") `B.isInfixOf`) ls)
              sent = count "sendto"
          -- Once a second the file and its siblings are looked at, which takes six.
          assertBool (show (took, sent, count "recvfrom", count "openat2")) $
            count "recvfrom" <= sent + 5 && fromIntegral (count "openat2") <= 10 * (took + 1),
    testCase "aTrickledByteCostTwoReceives: a byte of a slow head, or of a body that is not read, is one" $
      withDirectory $ \d -> do
        site d
        withProgram (["serve", d, "--cores", "1"] ++ free) $ \program -> withClient (addressOf program) $ \client -> do
          let ask = say client "GET / HTTP/1.1\r\nHost: a\r\n\r\n" >> hearAnswer client >>= \answer -> answerCode answer @?= 200
              receives = length . filter ("recvfrom(" `B.isInfixOf`) <$> traced d
              slowly bytes = forM_ (map C.singleton (C.unpack bytes)) $ \byte -> do
                say client byte
                -- Bytes that come together only make fewer receives.
                hearsWithin client 10000
          void . tracing d "recvfrom" program $ do
            _ <- eventually "strace to be attached" (ask >> traced d) (any ("recvfrom(" `B.isInfixOf`))
            before <- receives
            slowly "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n"
            slowly (C.replicate 40 'x')
            hearAnswer client >>= \answer -> answerCode answer @?= 405
            after <- receives
            assertBool (show (after - before)) (after - before <= 88 + 3)
  ]
  where
    -- Attach strace while the action runs; for how many seconds.
    tracing :: FilePath -> String -> Program -> IO () -> IO Double
    tracing d calls program act = do
      began <- getMonotonicTime
      let strace' = proc "strace" ["-f", "-o", d </> "trace", "-e", "trace=" ++ calls, "-p", show (programPid program)]
      withBinaryFile "/dev/null" WriteMode $ \nowhere ->
        bracket
          (createProcess strace' {std_in = NoStream, std_out = UseHandle nowhere, std_err = UseHandle nowhere})
          (\(_, _, _, strace) -> getPid strace >>= mapM_ (signalProcess sigINT) >> waitForProcess strace)
          (const act)
      subtract began <$> getMonotonicTime
    traced d = do
      there <- doesFileExist (d </> "trace")
      if there then C.lines <$> B.readFile (d </> "trace") else pure []

limitTests :: [TestTree]
limitTests =
  [ testCase "--max-body: 413 for what is longer" $
      withDirectory $ \d -> withProgram (["serve", d, "--max-body", "1k"] ++ free) $ \program -> do
        let post n = withClient (addressOf program) $ \client -> do
              say client (B.concat ["POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ", C.pack (show n), "\r\n\r\n", C.replicate n 'x'])
              answerCode <$> hearAnswer client
        post 1024 >>= (@?= 405)
        post 1025 >>= (@?= 413),
    testCase "--time-outs head=1: 408 for a head that does not come" $
      withDirectory $ \d -> withProgram (["serve", d, "--time-outs", "head=1,reply=60"] ++ free) $ \program ->
        withClient (addressOf program) $ \client -> do
          say client "GET / HTTP/1.1\r\nHost:"
          answer <- hearAnswer client
          answerCode answer @?= 408,
    testCase "--open: xdg-open gets the URL; its failure is a message" $
      withDirectory $ \d -> forM_ [(0 :: Int, const (pure ())), (3, \program -> void (eventually "a message" (programErr program) (("xdg-open could not open a browser" `B.isInfixOf`) . C.pack)))] $ \(code, after) -> do
        B.writeFile (d </> "xdg-open") (C.pack ("#!/bin/sh\necho \"$1\" > " ++ d </> "opened.new && mv " ++ d </> "opened.new " ++ d </> "opened; exit " ++ show code ++ "\n"))
        setFileMode (d </> "xdg-open") 0o755
        heddle <- findExecutable "heddle" >>= maybe (unexpected "heddle on the PATH" "nothing") pure
        path <- fromMaybe "" <$> lookupEnv "PATH"
        withProgramIn [("PATH", d ++ ":" ++ path)] (heddle, ["serve", d, "--open", "--listen", "unix:" ++ d </> "s", "--listen", "127.0.0.1:0"]) $ \program -> do
          void (eventually "the browser" (doesFileExist (d </> "opened")) id)
          opened <- readFile (d </> "opened")
          lines opened @?= [url | url <- programUrls program, take 7 url == "http://"]
          after program
        removeFile (d </> "opened")
  ]

refusals :: [TestTree]
refusals =
  [ refused ["--header", "*.html"] "has no = after the pattern",
    refused ["--header", "*.html=X"] "has no colon after the header's name",
    refused ["--header", "*.html=Bad Name:x"] "'Bad Name' is not the name of a header",
    refused ["--header", "**=X:a\r\nB: c"] "a character that cannot be sent",
    refused ["--header", "**=X:\252"] "a character that cannot be sent",
    refused ["--header", "**=Content-Length:3"] "belongs to the server",
    refused ["--header", "**=Content-Type:text/plain"] "--mime",
    refused ["--header", "{a=X:b"] "{ without its }",
    refused ["--cache-control", "**=a\nb"] "a character that cannot be sent",
    refused ["--cache-control", "=x"] "a pattern is empty",
    refused ["--cors", "example.org"] "is not an origin",
    refused ["--cors", "https://example.org/path"] "is not an origin",
    refused ["--mime", "glb"] "has no = after the extension",
    refused ["--mime", "a.b=text/plain"] "is not an extension",
    refused ["--mime", "glb=model"] "is not a media type",
    refused ["--mime", "glb=model/x\r\nX: y"] "is not a media type",
    refused ["--error-page", "404"] "has no = after the status",
    refused ["--error-page", "200=x.html"] "is not the status of an error",
    refused ["--error-page", "404=nothing.html"] "cannot use the page nothing.html",
    refused ["--spa"] "--spa",
    refused ["--compression", "gzip"] "there are off, static and on"
  ]
  where
    refused more part = testCase (unwords (map show more)) $
      withDirectory $ \d -> do
        ended <- runTool "heddle" (["serve", d] ++ free ++ more)
        endedCode ended @?= ExitFailure 2
        contains part (endedErr ended)
