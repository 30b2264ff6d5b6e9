{-# LANGUAGE OverloadedStrings #-}

-- | Real clients: curl, wget, Chromium. One that is not installed fails its tests.
module ClientsTest (tests) where

import Control.Monad (forM_, unless)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.Char (toLower)
import Data.List (isInfixOf, stripPrefix, tails)
import Data.Maybe (listToMaybe, mapMaybe)
import Heddle.Testkit.Watchdog (unexpected)
import Program
import System.Directory
import System.Exit (ExitCode (..))
import System.FilePath ((</>))
import System.Posix.Files (setFileTimes)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, (@?=))

tests :: TestTree
tests = testGroup "real clients" [testGroup "curl" curls, testGroup "wget" wgets, testGroup "Chromium" chromiums]

content :: B.ByteString
content = B.concat (replicate 3000 "0123456789 a line of a file that is sent with sendfile\r\n")

site :: FilePath -> IO ()
site d = do
  createDirectoryIfMissing True (d </> "sub" </> "deep")
  let files =
        [ ("index.html", page "<a href='sub/'>sub</a><a href='big.bin'>big</a><img src='with%20space.svg'><script src='script.js'></script><p id='out'>waiting</p>"),
          ("script.js", "fetch('data.json').then(r => r.json()).then(d => { document.getElementById('out').textContent = 'the answer is ' + (d.n * 2); });"),
          ("data.json", "{\"n\": 21}"),
          ("big.bin", content),
          ("small.txt", "a small file\n"),
          ("with space.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>"),
          ("sub/index.html", page "<a href='deep/'>deep</a><a href='../small.txt'>small</a>"),
          ("sub/deep/index.html", page "the end")
        ]
  forM_ files $ \(name, text) -> do
    B.writeFile (d </> name) text
    setFileTimes (d </> name) 1577836800 1577836800
  where
    page body = B.concat ["<!doctype html><title>site</title>", body]

withSite :: (FilePath -> String -> IO a) -> IO a
withSite act = withDirectory $ \d -> do
  let root = d </> "site"
  createDirectory root
  site root
  withProgram (["serve", root] ++ free) $ \program -> case programUrls program of
    u : _ -> act d u
    [] -> unexpected "a URL" "none"

-- curl -----------------------------------------------------------------------------------

curl :: [String] -> IO Ended
curl arguments = do
  ended <- runTool "curl" (["-sS", "--max-time", "20"] ++ arguments)
  unless (endedCode ended == ExitSuccess) (unexpected ("curl " ++ unwords arguments ++ " to succeed") (show ended))
  pure ended

curls :: [TestTree]
curls =
  [ testCase "a small and a large file" $
      withSite $ \_ u -> do
        curl [u ++ "/small.txt"] >>= \e -> endedOut e @?= "a small file\n"
        curl [u ++ "/big.bin"] >>= \e -> assertBool "the same bytes" (endedOut e == content),
    testCase "ranges" $
      withSite $ \_ u -> forM_ [("small.txt", "a small file\n"), ("big.bin", content)] $ \(name, text) -> do
        curl ["-r", "2-6", u ++ "/" ++ name] >>= \e -> endedOut e @?= B.take 5 (B.drop 2 text)
        curl ["-r", "-5", u ++ "/" ++ name] >>= \e -> endedOut e @?= B.drop (B.length text - 5) text
        curl ["-r", "5-", u ++ "/" ++ name] >>= \e -> assertBool "the rest" (endedOut e == B.drop 5 text)
        several <- curl ["-i", "-r", "0-1,4-6", u ++ "/" ++ name]
        forM_ ["206 Partial Content", "multipart/byteranges", C.unpack (B.take 2 text), C.unpack (B.take 3 (B.drop 4 text))] $ \part ->
          contains part (C.unpack (endedOut several))
        code ["-r", "99999999-", u ++ "/" ++ name] >>= (@?= "416"),
    testCase "-z: a condition on the time" $
      withSite $ \_ u -> do
        code ["-z", "Wed, 01 Jan 2020 00:00:00 GMT", u ++ "/small.txt"] >>= (@?= "304")
        code ["-z", "Tue, 31 Dec 2019 00:00:00 GMT", u ++ "/small.txt"] >>= (@?= "200")
        older <- curl ["-i", "-z", "-Tue, 31 Dec 2019 00:00:00 GMT", u ++ "/small.txt"]
        contains "412 Precondition Failed" (C.unpack (endedOut older)),
    testCase "--etag-save, --etag-compare" $
      withSite $ \d u -> do
        let tag = d </> "tag"
        code ["--etag-save", tag, u ++ "/small.txt"] >>= (@?= "200")
        code ["--etag-compare", tag, u ++ "/small.txt"] >>= (@?= "304")
        B.writeFile (d </> "site" </> "small.txt") "another file\n"
        -- A cached file is believed for a second.
        let again n
              | n == (0 :: Int) = unexpected "200 after a change" "304"
              | otherwise = code ["--etag-compare", tag, u ++ "/small.txt"] >>= \c -> if c == "200" then pure () else again (n - 1)
        again 1000,
    testCase "-C -: resuming" $
      withSite $ \d u -> do
        let part = d </> "part"
        B.writeFile part (B.take 70000 content)
        _ <- curl ["-C", "-", "-o", part, u ++ "/big.bin"]
        same <- (== content) <$> B.readFile part
        assertBool "the parts make the file" same,
    testCase "HTTP/1.0" $
      withSite $ \_ u -> do
        curl ["-0", u ++ "/big.bin"] >>= \e -> assertBool "the same bytes" (endedOut e == content)
        answer <- curl ["-0", "-i", u ++ "/small.txt"]
        contains "Connection: close" (C.unpack (endedOut answer)),
    testCase "--head" $
      withSite $ \_ u -> do
        answer <- C.unpack . endedOut <$> curl ["--head", u ++ "/big.bin"]
        forM_ ["HTTP/1.1 200 OK", "Content-Length: " ++ show (B.length content), "Accept-Ranges: bytes", "Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT", "ETag: \"", "Date: ", "Content-Type: application/octet-stream"] $ \part -> contains part answer,
    testCase "one connection for many files" $
      withSite $ \_ u -> do
        answer <- curl ["-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null", "-w", "%{num_connects} ", u ++ "/small.txt", u ++ "/big.bin", u ++ "/index.html"]
        endedOut answer @?= "1 0 0 ",
    testCase "redirects are followed" $
      withSite $ \_ u -> do
        answer <- curl ["-L", "-w", " %{url_effective}", u ++ "/sub/deep?x=1"]
        contains "the end" (C.unpack (endedOut answer))
        contains "/sub/deep/?x=1" (C.unpack (endedOut answer)),
    testCase "dots, an unknown method, a body" $
      withSite $ \_ u -> do
        code ["--path-as-is", u ++ "/../../etc/passwd"] >>= (@?= "404")
        code ["-X", "BREW", u ++ "/"] >>= (@?= "501")
        code ["-X", "OPTIONS", u ++ "/"] >>= (@?= "204")
        code ["-d", "a=b", u ++ "/"] >>= (@?= "405"),
    testCase "a large upload is refused before it is sent (Expect: 100-continue)" $
      withSite $ \d u -> do
        B.writeFile (d </> "upload") (B.replicate 5000000 120)
        answer <- curl ["-H", "Expect: 100-continue", "--expect100-timeout", "20", "-T", d </> "upload", "-o", "/dev/null", "-w", "%{http_code} %{size_upload}", u ++ "/upload"]
        endedOut answer @?= "405 0",
    testCase "a large upload without asking is answered" $
      withSite $ \d u -> do
        B.writeFile (d </> "upload") (B.replicate 200000 120)
        code ["-H", "Expect:", "-T", d </> "upload", u ++ "/upload"] >>= (@?= "405"),
    testCase "listOnSeveralLinesWasItsFirstLine: over HTTP/1 and HTTP/2" $
      withDirectory $ \d -> do
        site d
        forM_ ["br", "gz"] $ \suffix -> B.writeFile (d </> "small.txt." ++ suffix) "smaller"
        withProgram (["serve", d, "--compression", "static", "--autoindex", "--index", "none"] ++ free) $ \program ->
          forM_ ["--http1.1", "--http2-prior-knowledge"] $ \protocol -> do
            let asking path fields = C.unpack . endedOut <$> curl (["-i", protocol] ++ concat [["-H", field] | field <- fields] ++ [head (programUrls program) ++ path])
                says path fields part = asking path fields >>= contains part . map toLower
            forM_
              [ (["deflate", "gzip"], "gzip"),
                (["gzip;q=0.5", "identity;q=0.1, br"], "br"),
                (["br;q=0", "gzip, br;q=0", "zstd;q=0.1"], "gzip")
              ]
              $ \(accepted, coding) -> says "/small.txt" ["Accept-Encoding: " ++ one | one <- accepted] ("content-encoding: " ++ coding ++ "\r\n")
            says "/sub/" ["Accept: text/html;q=0.1", "Accept: application/json"] "content-type: application/json"
            says "/big.bin" ["Range: bytes=0-1", "Range: bytes=2-3"] "content-length: 168000\r\n"
            tags <- (\text -> [drop 6 line | line <- lines (filter (/= '\r') text), map toLower (take 6 line) == "etag: "]) <$> asking "/big.bin" ["Range: bytes=0-0"]
            forM_ tags $ \tag -> says "/big.bin" ["If-None-Match: \"x\"", "If-None-Match: " ++ tag] " 304"
            length tags @?= 1,
    testCase "--unix-socket" $
      withDirectory $ \d -> do
        site d
        withProgram ["serve", d, "--listen", "unix:" ++ d </> "s"] $ \_ ->
          curl ["--unix-socket", d </> "s", "http://localhost/small.txt"] >>= \e -> endedOut e @?= "a small file\n"
  ]
  where
    code arguments = endedOut <$> curl (["-o", "/dev/null", "-w", "%{http_code}"] ++ arguments)

-- wget -----------------------------------------------------------------------------------

wget :: [String] -> IO Ended
wget arguments = do
  ended <- runToolIn [("LC_ALL", "C")] "wget" (["-nv", "--tries=1", "--timeout=20"] ++ arguments)
  unless (endedCode ended == ExitSuccess) (unexpected ("wget " ++ unwords arguments ++ " to succeed") (show ended))
  pure ended

wgets :: [TestTree]
wgets =
  [ testCase "-c: resuming" $
      withSite $ \d u -> do
        B.writeFile (d </> "big.bin") (B.take 70000 content)
        _ <- wget ["-c", "-P", d, u ++ "/big.bin"]
        same <- (== content) <$> B.readFile (d </> "big.bin")
        assertBool "the parts make the file" same
        -- Complete already: 416, which wget understands.
        _ <- wget ["-c", "-P", d, u ++ "/big.bin"]
        pure (),
    testCase "-N: only what is newer" $
      withSite $ \d u -> do
        _ <- wget ["-N", "-P", d, u ++ "/small.txt"]
        again <- runToolIn [("LC_ALL", "C")] "wget" ["-N", "-S", "-P", d, u ++ "/small.txt"]
        contains "304 Not Modified" (endedErr again)
        B.readFile (d </> "small.txt") >>= (@?= "a small file\n"),
    testCase "--recursive: every page of a site" $
      withSite $ \d u -> do
        _ <- wget ["-r", "-nH", "-P", d </> "copy", u ++ "/"]
        forM_ ["index.html", "big.bin", "small.txt", "script.js", "with space.svg", "sub/index.html", "sub/deep/index.html"] $ \name -> do
          there <- doesFileExist (d </> "copy" </> name)
          assertBool ("expected a copy of " ++ name) there
          same <- (==) <$> B.readFile (d </> "copy" </> name) <*> B.readFile (d </> "site" </> name)
          assertBool ("the copy of " ++ name ++ " differs") same,
    testCase "--recursive: the example site has no broken link" $
      withExample $ \d u -> do
        ended <- wget ["-r", "--spider", "-e", "robots=off", "-P", d, u ++ "/"]
        contains "Found no broken links" (endedErr ended)
  ]

-- The example site, from wherever the suite is run.
withExample :: (FilePath -> String -> IO a) -> IO a
withExample act = do
  found <- firstThat ["../../examples/site", "examples/site"]
  withDirectory $ \d -> withProgram (["serve", found] ++ free) $ \program -> act d (head (programUrls program))
  where
    firstThat = \case
      [] -> unexpected "the example site in examples/site" "no such directory"
      p : ps -> doesDirectoryExist p >>= \e -> if e then pure p else firstThat ps

-- Chromium ---------------------------------------------------------------------------------

chromiums :: [TestTree]
chromiums =
  [ testCase "a page whose script fetches a second file" $
      withSite $ \d u -> do
        dom <- dump d (u ++ "/")
        contains "<p id=\"out\">the answer is 42</p>" dom,
    testCase "the example site" $
      withExample $ \d u -> do
        dom <- dump d (u ++ "/")
        contains "</html>" dom,
    testCase "a listing: directories first, names in natural order, sizes; sorted by size where its heading leads" $
      withDirectory $ \d -> do
        let root = d </> "site"
        createDirectoryIfMissing True (root </> "photos")
        forM_ [("file10.txt", 10), ("file9.txt", 3000), ("<b>.txt", 2)] $ \(name, size) -> B.writeFile (root </> name) (C.replicate size 'x')
        withProgram (["serve", root, "--autoindex"] ++ free) $ \program -> case programUrls program of
          [] -> unexpected "a URL" "none"
          u : _ -> do
            names <- links <$> dump d (u ++ "/")
            names @?= ["photos/", "&lt;b&gt;.txt", "file9.txt", "file10.txt"]
            sorted <- dump d (u ++ "/?sort=size&order=desc")
            links sorted @?= ["photos/", "file9.txt", "file10.txt", "&lt;b&gt;.txt"]
            contains "aria-sort=\"descending\"" sorted
            assertBool "no script, and nothing from elsewhere" (not (any (`isInfixOf` sorted) ["<script", "src=", "@import", "http://", "https://"]))
  ]
  where
    dump d u = do
      ended <-
        runToolIn
          [("HOME", d)]
          "chromium"
          ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=" ++ d </> "profile", "--virtual-time-budget=10000", "--dump-dom", u]
      unless (endedCode ended == ExitSuccess) (unexpected "Chromium to succeed" (show ended))
      pure (C.unpack (endedOut ended))
    -- The texts of what leads to names of the directory.
    links dom = case breakOn "<a href=\"./" dom of
      Nothing -> []
      Just rest -> takeWhile (/= '<') (drop 1 (dropWhile (/= '>') rest)) : links rest
    breakOn part text = listToMaybe (mapMaybe (stripPrefix part) (tails text))
