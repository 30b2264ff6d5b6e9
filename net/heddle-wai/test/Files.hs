{-# LANGUAGE OverloadedStrings #-}

-- | Responses that are files: whole, in part, conditional. Where Warp is right it says the same.
module Files (tests) where

import Control.Exception (IOException, try)
import Control.Monad (forM, forM_)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.IORef
import Data.List (sort)
import Fixture
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import Network.HTTP.Types
import Network.Wai
import Network.Wai.Handler.Heddle qualified as Heddle
import Network.Wai.Handler.Warp qualified as Warp
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "files"
    [ testCase "conditions and ranges" . withFile $ \path _ ->
        forM_ cases $ \(headers, code, body, range, asWarp) -> do
          let application _ respond = respond (responseFile status200 [(hContentType, "text/x")] path Nothing)
              text = C.concat ["GET / HTTP/1.1\r\nHost: a\r\n", headers, "\r\n"]
              what = show headers
          answer <- withHeddle application (ask "GET" text)
          assertEqual (what ++ ": code") code (answerCode answer)
          assertEqual (what ++ ": body") body (answerBody answer)
          assertEqual (what ++ ": Content-Range") range (answerHeader answer "content-range")
          if asWarp
            then do
              warp <- withWarp application (ask "GET" (C.concat ["GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n", headers, "\r\n"]))
              assertEqual (what ++ ": as Warp") (parts warp) (parts answer)
            else pure ()
          -- HEAD says what GET would, without the content.
          headAnswer <- withHeddle application (ask "HEAD" ("HEAD" <> B.drop 3 text))
          assertEqual (what ++ ": HEAD") (code, "", answerHeader answer "content-length") (answerCode headAnswer, answerBody headAnswer, answerHeader headAnswer "content-length"),
      testCase "a modification date is told, and believed" . withFile $ \path _ -> do
        let application _ respond = respond (responseFile status200 [] path Nothing)
        Just date <- (`answerHeader` "last-modified") <$> withHeddle application (ask "GET" (get "/"))
        forM_ [("If-Modified-Since", 304), ("If-Unmodified-Since", 200)] $ \(name, code) ->
          forM_ [withHeddle application, withWarp application] $ \on -> do
            answer <- on (ask "GET" (C.concat ["GET / HTTP/1.1\r\nHost: a\r\n", name, ": ", date, "\r\n\r\n"]))
            answerCode answer @?= code,
      testCase "an application's ETag counts" . withFile $ \path _ -> do
        let application _ respond = respond (responseFile status200 [("ETag", "\"v1\"")] path Nothing)
        forM_ [("If-None-Match: \"v1\"", 304), ("If-None-Match: \"v2\"", 200), ("If-Match: \"v2\"", 412)] $ \(line, code) -> do
          answer <- withHeddle application (ask "GET" (C.concat ["GET / HTTP/1.1\r\nHost: a\r\n", line, "\r\n\r\n"]))
          answerCode answer @?= code,
      testCase "another status than 200 is kept, with the whole file" . withFile $ \path _ -> do
        answer <- withHeddle (\_ respond -> respond (responseFile status404 [] path Nothing)) (ask "GET" "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n")
        (answerCode answer, answerBody answer) @?= (404, content),
      testCase "a part is sent as the application says" . withFile $ \path _ ->
        forM_ [(status206, FilePart 2 3 10, "cde", Just "bytes 2-4/10"), (status200, FilePart 0 10 10, content, Nothing)] $ \(status, part, body, range) -> do
          let application _ respond = respond (responseFile status [] path (Just part))
          answer <- withHeddle application (ask "GET" (get "/"))
          warp <- withWarp application (ask "GET" (get "/"))
          (answerCode answer, answerBody answer, answerHeader answer "content-range") @?= (statusCode status, body, range)
          parts answer @?= parts warp,
      testCase "an application asks about a file, as of Warp" . withFile $ \path folder -> do
        let told = show . map (fmap (\(size, date) -> (size :: Integer, date :: ByteString)) . either (const Nothing) Just)
            asked ask' request respond = do
              infos <- forM [path, folder, folder ++ "/none", "a\0b"] (try . ask' request)
              respond (responseLBS status200 [] (L.fromStrict (C.pack (told (infos :: [Either IOException (Integer, ByteString)])))))
            ours request name = (\file -> (Heddle.fileInfoSize file, Heddle.fileInfoDate file)) <$> Heddle.getFileInfo request name
            warps request name = (\file -> (Warp.fileInfoSize file, Warp.fileInfoDate file)) <$> Warp.getFileInfo request name
        here <- withHeddle (asked ours) (ask "GET" (get "/"))
        there <- withWarp (asked warps) (ask "GET" (get "/"))
        B.isPrefixOf "[Just (10,\"" (answerBody here) @?= True
        answerBody here @?= answerBody there,
      testCase "what cannot be read is 404" . withFile $ \path folder ->
        forM_ [path ++ ".none", folder, path ++ "\0x", ""] $ \name -> do
          let application _ respond = respond (responseFile status200 [(hContentType, "text/x"), ("X", "kept")] name Nothing)
          answer <- withHeddle application (ask "GET" (get "/"))
          (answerCode answer, answerHeader answer "content-type", answerHeader answer "x") @?= (404, Just "text/plain; charset=utf-8", Just "kept"),
      testCase "a part beyond the file's end cuts the answer short, and the server lives" . withFile $ \path _ -> do
        reports <- newIORef []
        withHeddleSettings (reporting reports Heddle.defaultSettings) (\_ respond -> respond (responseFile status200 [] path (Just (FilePart 5 100 105)))) $ \address -> do
          withClient address $ \client -> do
            say client (get "/")
            answer <- hearAnswer client
            (answerBody answer, answerWhole answer) @?= ("fghij", False)
          withClient address $ \client -> do
            say client "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n"
            answer <- hear client "HEAD" >>= maybe (unexpected "an answer" "the end") pure
            answerCode answer @?= 200,
      testCase "a megabyte by sendfile, many times on one connection" . withFile $ \path _ -> do
        let big = B.pack (take 1000000 (cycle [0 .. 255]))
        B.writeFile path big
        withHeddle (\_ respond -> respond (responseFile status200 [] path Nothing)) $ \client -> forM_ [1 :: Int .. 5] $ \_ -> do
          say client (get "/")
          hearAnswer client >>= answersWith 200 big
    ]

-- Header lines, and what they lead to: code, content, Content-Range; and whether Warp agrees.
cases :: [(ByteString, Int, ByteString, Maybe ByteString, Bool)]
cases =
  [ ("", 200, content, Nothing, True),
    ("Range: bytes=0-0\r\n", 206, "a", Just "bytes 0-0/10", True),
    ("Range: bytes=2-4\r\n", 206, "cde", Just "bytes 2-4/10", True),
    ("Range: bytes=7-\r\n", 206, "hij", Just "bytes 7-9/10", True),
    ("Range: bytes=7-100\r\n", 206, "hij", Just "bytes 7-9/10", True),
    ("Range: bytes=-2\r\n", 206, "ij", Just "bytes 8-9/10", True),
    ("Range: bytes=-100\r\n", 200, content, Nothing, True),
    ("Range: bytes=0-9\r\n", 200, content, Nothing, True),
    -- Warp sends a negative length here.
    ("Range: bytes=10-\r\n", 416, "", Just "bytes */10", False),
    -- RFC 9110, section 14.2: what is malformed is ignored. Warp says 416.
    ("Range: bytes=x\r\n", 200, content, Nothing, False),
    ("Range: lines=1-2\r\n", 200, content, Nothing, False),
    -- Warp sends the first of them.
    ("Range: bytes=0-0,5-5\r\n", 200, content, Nothing, False),
    ("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 200, content, Nothing, True),
    -- This Warp wants the same date, later ones do not.
    ("If-Modified-Since: Thu, 31 Dec 2099 23:59:59 GMT\r\n", 304, "", Nothing, False),
    ("If-Modified-Since: rubbish\r\n", 200, content, Nothing, True),
    ("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 412, "", Nothing, True),
    -- This Warp wants the same date here, too.
    ("If-Unmodified-Since: Thu, 31 Dec 2099 23:59:59 GMT\r\n", 200, content, Nothing, False),
    ("Range: bytes=0-0\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n", 200, content, Nothing, True),
    ("Range: bytes=0-0\r\nIf-Range: \"tag\"\r\n", 200, content, Nothing, False)
  ]

content :: ByteString
content = "abcdefghij"

ask :: ByteString -> ByteString -> Client -> IO Answer
ask verb text client = say client text >> hear client verb >>= maybe (unexpected "an answer" "the end") pure

parts :: Answer -> (Int, ByteString, [(ByteString, ByteString)])
parts answer = (answerCode answer, answerBody answer, sort [h | answerCode answer < 300, h@(n, _) <- answerHeaders answer, n `elem` ["content-type", "content-range", "content-length", "accept-ranges", "last-modified"]])

-- A file of ten bytes in a directory of its own, and the directory.
withFile :: (FilePath -> FilePath -> IO a) -> IO a
withFile act = withTemporary $ \folder -> do
  let path = folder ++ "/file"
  B.writeFile path content
  act path folder
