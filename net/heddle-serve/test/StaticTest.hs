{-# LANGUAGE OverloadedStrings #-}

-- | Paths, kinds of files, methods, and files that change, over the wire.
module StaticTest (tests) where

import Control.Concurrent (forkIO)
import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, bracket_, try)
import Control.Monad (forM_, unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List (isInfixOf)
import Heddle.Serve.Internal (closeRoot, newHasFile, openRoot)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.Socket
import SiteFixture
import System.Directory
import System.FilePath ((</>))
import System.Posix.Files
import System.Posix.Resource
import System.Posix.User (getEffectiveUserID)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))

tests :: TestTree
tests =
  testGroup
    "Static"
    [ testGroup "paths, asked twice on one connection" [testCase (take 60 (C.unpack path)) (answered path expected) | (path, expected) <- paths],
      testGroup "what is not a plain file" kinds,
      testGroup "methods" methods,
      testGroup "large files" large,
      testGroup "files that change" changes,
      testCase "fileOfALinkWasMissing: a file that a link outside leads to is there for gateways if it is for clients" $
        withDirectory $ \directory -> withDirectory $ \outside -> do
          B.writeFile (outside </> "page.php") "x"
          createFileLink (outside </> "page.php") (directory </> "page.php")
          bracket (openRoot (C.pack directory)) closeRoot $ \root -> do
            beneath <- newHasFile False root
            following <- newHasFile True root
            beneath "page.php" >>= (@?= False)
            following "page.php" >>= (@?= True)
            following "none.php" >>= (@?= False),
      testCase "that a file is missing is not remembered" $
        withDirectory $ \directory -> bracket (openRoot (C.pack directory)) closeRoot $ \root -> do
          has <- newHasFile False root
          has "page.php" >>= (@?= False)
          B.writeFile (directory </> "page.php") "x"
          has "page.php" >>= (@?= True)
          has "page.php" >>= (@?= True),
      testCase "scriptsWereMissingWithoutDescriptors: whether a file is there is not known then" $
        withDirectory $ \directory -> bracket (openRoot (C.pack directory)) closeRoot $ \root -> do
          B.writeFile (directory </> "page.php") "x"
          limits <- getResourceLimit ResourceOpenFiles
          let set now = setResourceLimit ResourceOpenFiles limits {softLimit = now}
          forM_ [False, True] $ \follows -> do
            has <- newHasFile follows root
            r <- bracket_ (set (ResourceLimit 3)) (set (softLimit limits)) (try (has "page.php"))
            either (\e -> "open files" `isInfixOf` show (e :: IOException)) (const False) r @?= True
            has "page.php" >>= (@?= True)
    ]

-- Paths --------------------------------------------------------------------------

data Expected = File ByteString | Moved ByteString | Refused Int

answered :: ByteString -> Expected -> IO ()
answered path expected = withSite site $ \running -> with running $ \client ->
  forM_ [1 :: Int, 2] $ \_ -> do
    answer <- ask client "GET" path []
    case expected of
      File content -> answersWith 200 content answer
      Moved place -> do
        answerCode answer @?= 301
        answerHeader answer "location" @?= Just place
      Refused code -> answerCode answer @?= code
    headAnswer <- ask client "HEAD" path []
    answerCode headAnswer @?= answerCode answer
    answerBody headAnswer @?= ""
    answerHeader headAnswer "content-length" @?= Just (C.pack (show (B.length (answerBody answer))))

site :: FilePath -> IO ()
site directory = do
  mapM_
    (createDirectoryIfMissing True . (directory </>))
    ["dir/.secret", "htm", "noindex", ".well-known", "a b/c", "indexed/index.html"]
  mapM_
    (\(name, content) -> B.writeFile (directory </> name) content)
    [ ("index.html", "home"),
      ("a.txt", "plain"),
      ("empty.txt", ""),
      ("with space.txt", "space"),
      ("\252n\239.txt", "unicode"),
      ("100%.txt", "percent"),
      ("quote\".txt", "quote"),
      ("plus+&=.txt", "plus"),
      ("..txt", "dots"),
      ("dir/index.html", "dir home"),
      ("dir/inner.txt", "inner"),
      ("dir/.secret/x", "secret"),
      ("htm/index.htm", "htm home"),
      ("noindex/x.txt", "x"),
      ("a b/c/index.html", "c home"),
      (".hidden", "hidden"),
      (".well-known/x", "known")
    ]

paths :: [(ByteString, Expected)]
paths =
  [ ("/", File "home"),
    ("/?query", File "home"),
    ("/index.html", File "home"),
    ("/a.txt", File "plain"),
    ("/a.txt?x=/../y", File "plain"),
    ("http://other.example/a.txt", File "plain"),
    ("/empty.txt", File ""),
    ("/with%20space.txt", File "space"),
    ("/%C3%BCn%C3%AF.txt", File "unicode"),
    ("/%c3%bcn%c3%af.txt", File "unicode"),
    ("/100%25.txt", File "percent"),
    ("/quote%22.txt", File "quote"),
    ("/plus+&=.txt", File "plus"),
    ("/plus%2B%26%3D.txt", File "plus"),
    ("/%61.txt", File "plain"),
    ("/./a.txt", File "plain"),
    ("//a.txt", File "plain"),
    ("/dir//inner.txt", File "inner"),
    ("/dir/../a.txt", File "plain"),
    ("/dir/%2e%2E/a.txt", File "plain"),
    ("/dir/", File "dir home"),
    ("/dir/.", File "dir home"),
    ("/dir/inner.txt/..", File "dir home"),
    ("/htm/", File "htm home"),
    ("/a%20b/c/", File "c home"),
    ("/.well-known/x", File "known"),
    ("/dir", Moved "/dir/"),
    ("/dir?a=b?c", Moved "/dir/?a=b?c"),
    ("/a%20b/c", Moved "/a%20b/c/"),
    ("//dir", Moved "/dir/"),
    ("/.//dir", Moved "/dir/"),
    ("/noindex", Moved "/noindex/"),
    ("/noindex/", Refused 403),
    ("/indexed/", Refused 403),
    ("/nothing", Refused 404),
    ("/nothing/", Refused 404),
    ("/a.txt/", Refused 404),
    ("/a.txt/x", Refused 404),
    ("/..", Refused 404),
    ("/../a.txt", Refused 404),
    ("/dir/../../a.txt", Refused 404),
    ("/%2e%2e/a.txt", Refused 404),
    ("/.%2e/.%2e/etc/passwd", Refused 404),
    ("/..%2fa.txt", Refused 404),
    ("/dir%2finner.txt", Refused 404),
    ("/dir%2Finner.txt", Refused 404),
    ("/dir%5cinner.txt", Refused 404),
    ("/dir\\inner.txt", Refused 404),
    ("/%00", Refused 404),
    ("/a.txt%00", Refused 404),
    ("/a.txt%00.html", Refused 404),
    ("/%zz", Refused 400),
    ("/a.txt%", Refused 400),
    ("/a.txt%2", Refused 400),
    ("/.hidden", Refused 404),
    ("/%2ehidden", Refused 404),
    ("/..txt", Refused 404),
    ("/dir/.secret/x", Refused 404),
    ("/.well-known/../.hidden", Refused 404),
    ("/" <> C.replicate 300 'n', Refused 404),
    ("/" <> B.concat (replicate 2000 "d/"), Refused 404)
  ]

-- What is not a plain file --------------------------------------------------------------

kinds :: [TestTree]
kinds =
  [ link "to a file inside: 200" "a.txt" "/link" (200, "plain"),
    link "to a directory inside: redirected" "dir" "/link" (301, ""),
    link "through a directory inside: 200" "dir" "/link/inner.txt" (200, "inner"),
    link "by its absolute path out of the root: 403" "/etc/passwd" "/link" (403, ""),
    link "by dots out of the root: 403" "../../../../../etc/passwd" "/link" (403, ""),
    link "to a directory out of the root: 403" "/etc" "/link/passwd" (403, ""),
    link "to the directory above: 403" ".." "/link/" (403, ""),
    link "to nothing: 404" "nothing" "/link" (404, ""),
    link "to itself: 404" "link" "/link" (404, ""),
    testCase "an index that leads out: 403" $
      withSite (\d -> createSymbolicLink "/etc/passwd" (d </> "index.html")) $ \running -> do
        answer <- asking running "GET" "/" []
        answerCode answer @?= 403,
    testCase "a FIFO: 403, at once" $
      withSite (\d -> createNamedPipe (d </> "fifo") 0o644) $ \running -> do
        answer <- asking running "GET" "/fifo" []
        answerCode answer @?= 403,
    testCase "socketFileWasAnInternalError: a socket: 403" $
      withSite (const (pure ())) $ \running ->
        bracket (socket AF_UNIX Stream 0) close $ \s -> do
          bind s (SockAddrUnix (siteDirectory running </> "socket"))
          answer <- asking running "GET" "/socket" []
          answerCode answer @?= 403,
    testCase "a device: 403 (where this user may make one)" $
      withSite (const (pure ())) $ \running -> do
        -- The null device.
        made <- try (createDevice (siteDirectory running </> "null") (characterSpecialMode + 0o666) 0x103)
        case made of
          Left (_ :: IOException) -> pure ()
          Right () -> do
            answer <- asking running "GET" "/null" []
            answerCode answer @?= 403,
    testCase "a file that may not be read: 403 (root may read every file)" $
      withSite (\d -> site d >> setFileMode (d </> "a.txt") 0) $ \running -> do
        user <- getEffectiveUserID
        answer <- asking running "GET" "/a.txt" []
        answerCode answer @?= (if user == 0 then 200 else 403)
  ]
  where
    link what to path (code, content) = testCase ("a link " ++ what) $
      withSite (\d -> site d >> createSymbolicLink to (d </> "link")) $ \running -> with running $ \client ->
        forM_ [1 :: Int, 2] $ \_ -> do
          answer <- ask client "GET" path []
          answerCode answer @?= code
          when (code == 200) (answerBody answer @?= content)

-- Methods ------------------------------------------------------------------------------

methods :: [TestTree]
methods =
  [ testCase (C.unpack m ++ ": 405, with what is allowed") $
      withSite site $ \running -> with running $ \client -> do
        answer <- ask client m "/a.txt" []
        answerCode answer @?= 405
        answerHeader answer "allow" @?= Just "GET, HEAD, OPTIONS"
        again client
    | m <- ["POST", "PUT", "DELETE", "PATCH", "TRACE"]
  ]
    ++ [ testCase "CONNECT: 405" $
           withSite site $ \running -> do
             answer <- asking running "CONNECT" "test:443" []
             answerCode answer @?= 405,
         testCase "an unknown method: 501" $
           withSite site $ \running -> with running $ \client -> do
             answer <- ask client "BREW" "/a.txt" []
             answerCode answer @?= 501
             lower <- ask client "get" "/a.txt" []
             answerCode lower @?= 501
             again client,
         testCase "OPTIONS, of a file and of the server: 204" $
           withSite site $ \running -> with running $ \client ->
             forM_ ["/a.txt", "*"] $ \path -> do
               answer <- ask client "OPTIONS" path []
               answersWith 204 "" answer
               answerHeader answer "allow" @?= Just "GET, HEAD, OPTIONS",
         testCase "POST with a body: 405, and the connection stays" $
           withSite site $ \running -> with running $ \client -> do
             say client "POST /a.txt HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\nabc"
             answer <- hearAnswer client
             answerCode answer @?= 405
             again client,
         testCase "an error page is HTML and does not repeat the path" $
           withSite site $ \running -> do
             answer <- asking running "GET" "/<script>" []
             unless (answerCode answer `elem` [400, 404] && not ("<script>" `B.isInfixOf` answerBody answer)) $
               unexpected "400 or 404 without the path" (show answer),
         testCase "types" $
           withSite site $ \running -> with running $ \client ->
             forM_ [("/", "text/html; charset=utf-8"), ("/a.txt", "text/plain; charset=utf-8"), ("/.well-known/x", "application/octet-stream")] $ \(path, media) -> do
               answer <- ask client "GET" path []
               answerHeader answer "content-type" @?= Just media
       ]
  where
    again client = ask client "GET" "/a.txt" [] >>= answersWith 200 "plain"

-- Large files ----------------------------------------------------------------------------

large :: [TestTree]
large =
  [ testCase "sizes around the limit of the cache, whole" $ do
      let sizes = [65535, 65536, 65537, 131072, 1000000]
      withSite (\d -> forM_ sizes $ \n -> B.writeFile (d </> show n) (noise n)) $ \running -> with running $ \client ->
        forM_ (sizes ++ sizes) $ \n -> ask client "GET" (C.pack ('/' : show n)) [] >>= answersWith 200 (noise n),
    testCase "20 MB by several clients at once, byte for byte" $ do
      let content = noise 20000000
      withSite (\d -> B.writeFile (d </> "big") content) $ \running -> do
        done <- mapM (\_ -> inBackground (asking running "GET" "/big" [])) [1 :: Int .. 4]
        forM_ done $ \wait -> wait >>= answersWith 200 content,
    testCase "a range beyond four gigabytes of a sparse file" $
      withSite (\d -> B.writeFile (d </> "sparse") "" >> setFileSize (d </> "sparse") 5000000010) $ \running -> do
        answer <- asking running "GET" "/sparse" [("Range", "bytes=5000000000-")]
        answersWith 206 (B.replicate 10 0) answer
        answerHeader answer "content-range" @?= Just "bytes 5000000000-5000000009/5000000010",
    testCase "clients that leave in the middle cost nothing" $ do
      withSite (\d -> B.writeFile (d </> "big") (noise 20000000)) $ \running -> do
        before <- length <$> listDirectory "/proc/self/fd"
        forM_ [1 :: Int .. 20] $ \i -> with running $ \client -> do
          say client "GET /big HTTP/1.1\r\nHost: test\r\n\r\n"
          heard <- hearsWithin client patience
          heard @?= True
          when (even i) (abort client)
        void (eventually "the files to be closed" (length <$> listDirectory "/proc/self/fd") (<= before)),
    testCase "truncatedFileIsNeverPadded: a file truncated while it is sent closes the connection short" $ do
      withSite (\d -> B.writeFile (d </> "big") (noise 30000000)) $ \running -> with running $ \client -> do
        say client "GET /big HTTP/1.1\r\nHost: test\r\n\r\n"
        heard <- hearsWithin client patience
        heard @?= True
        setFileSize (siteDirectory running </> "big") 8192
        answer <- hearAnswer client
        -- The kernel may replace bytes after the new end by zeros while it sends them.
        unless (not (answerWhole answer) && B.take 8192 (answerBody answer) == noise 8192) $
          unexpected "a true beginning of the file, cut short" (show (answerWhole answer, B.length (answerBody answer)))
        hearEnd client
  ]

inBackground :: IO a -> IO (IO a)
inBackground action = do
  result <- newEmptyMVar
  _ <- forkIO (try action >>= putMVar result)
  pure (readMVar result >>= either (\e -> unexpected "no exception" (show (e :: IOException))) pure)

-- Files that change ---------------------------------------------------------------------

changes :: [TestTree]
changes =
  [ testCase "replaced by another" $
      served "first" "second" $ \path -> do
        B.writeFile (path ++ ".new") "second"
        renameFile (path ++ ".new") path,
    testCase "rewritten in place" $ served "first" "second!" $ \path -> B.writeFile path "second!",
    testCase "rewritten in place with the same length" $ served "first" "other" $ \path -> B.writeFile path "other",
    testCase "grown beyond the cache" $ served "first" (noise 100000) $ \path -> B.writeFile path (noise 100000),
    testCase "shrunk into the cache" $ served (noise 100000) "second" $ \path -> B.writeFile path "second",
    testCase "emptied" $ served "first" "" $ \path -> B.writeFile path "",
    testCase "replaced by a link" $
      served "first" "target" $ \path -> do
        B.writeFile (path ++ ".target") "target"
        removeFile path
        createSymbolicLink "file.txt.target" path,
    testCase "removed: 404; made again: served at once" $
      withSite (\d -> B.writeFile (d </> "file.txt") "first") $ \running -> with running $ \client -> do
        let file = siteDirectory running </> "file.txt"
            look = ask client "GET" "/file.txt" []
        look >>= answersWith 200 "first"
        removeFile file
        void (eventually "404 after the removal" (answerCode <$> look) (== 404))
        B.writeFile file "second"
        look >>= answersWith 200 "second",
    testCase "replaced by a directory: redirected" $
      withSite (\d -> B.writeFile (d </> "file.txt") "first") $ \running -> with running $ \client -> do
        let file = siteDirectory running </> "file.txt"
        ask client "GET" "/file.txt" [] >>= answersWith 200 "first"
        removeFile file
        createDirectory file
        void (eventually "301" (answerCode <$> ask client "GET" "/file.txt" []) (== 301)),
    testCase "its validators change with it" $
      withSite (\d -> B.writeFile (d </> "file.txt") "first") $ \running -> with running $ \client -> do
        first <- ask client "GET" "/file.txt" []
        tag <- maybe (unexpected "an ETag" (show first)) pure (answerHeader first "etag")
        B.writeFile (siteDirectory running </> "file.txt") "second"
        answer <- eventually "200 for the old tag" (ask client "GET" "/file.txt" [("If-None-Match", tag)]) ((== 200) . answerCode)
        answersWith 200 "second" answer
  ]
  where
    served before after change =
      withSite (\d -> B.writeFile (d </> "file.txt") before) $ \running -> with running $ \client -> do
        let look = ask client "GET" "/file.txt" []
        look >>= answersWith 200 before
        look >>= answersWith 200 before
        () <- change (siteDirectory running </> "file.txt")
        answer <- eventually "the new content" look (\a -> answerCode a == 200 && answerBody a == after)
        answersWith 200 after answer
