{-# LANGUAGE OverloadedStrings #-}

-- | Conditions and ranges over the wire, for a file from the cache and for one by sendfile.
module ConditionTest (tests) where

import Control.Monad (forM_, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.List.NonEmpty (NonEmpty (..))
import Data.Maybe (fromMaybe)
import Heddle.Serve.Internal hiding (siteDirectory)
import Heddle.Testkit.HttpClient
import Heddle.Testkit.Watchdog
import SiteFixture
import SitesTest qualified as Sites
import System.Directory (createDirectory)
import System.FilePath ((</>))
import System.IO (IOMode (..), withBinaryFile)
import System.Posix.Files (setFileTimes)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (testCase, (@?=))
import Test.Tasty.QuickCheck

tests :: TestTree
tests =
  testGroup
    "conditions and ranges"
    [ testGroup
        kind
        [ testGroup "conditions" [testCase name (conditional size fields code) | (name, fields, code) <- conditions],
          testGroup "ranges" [testCase (C.unpack range) (ranged size range expected) | (range, expected) <- ranges size],
          testCase "HEAD and conditions" $ heads size,
          testCase "tagWithoutTimeOfChange: other content of the same size, with its time set back, has another tag" $ tagged size,
          testCase "copiesHadOtherTags: with mtime-size, copies on two servers have one tag, and conditions and ranges hold on both" $ copies size,
          testProperty "anyRangesAreTheirParts" $ forAll (someRanges size) $ \rs -> ioProperty (True <$ manyRanges size rs)
        ]
      | (kind, size) <- [("a small file", 1000), ("a large file", 100000)]
    ]

file :: Int -> FilePath -> IO ()
file size directory = do
  B.writeFile (directory </> "f.txt") (noise size)
  -- 2020-01-01T00:00:00Z
  setFileTimes (directory </> "f.txt") 1577836800 1577836800

tagged :: Int -> IO ()
tagged size = withSite (file size) $ \site -> do
  let path = siteDirectory site </> "f.txt"
      tag a = maybe (unexpected "an entity tag" (show a)) pure (answerHeader a "etag")
  first <- asking site "GET" "/f.txt" []
  -- In place, so that the inode stays.
  withBinaryFile path ReadWriteMode (\h -> B.hPut h (B.reverse (noise size)))
  setFileTimes path 1577836800 1577836800
  second <- eventually "the new content" (asking site "GET" "/f.txt" []) ((== B.reverse (noise size)) . answerBody)
  answerHeader second "last-modified" @?= answerHeader first "last-modified"
  before <- tag first
  now <- tag second
  when (before == now) $ unexpected "another tag" (show now)
  -- Another core's cache may trust what it has for a second.
  _ <- eventually "200 with the old tag" (answerCode <$> asking site "GET" "/f.txt" [("If-None-Match", before)]) (== 200)
  pure ()

copies :: Int -> IO ()
copies size = withDirectory $ \d -> do
  forM_ ["a", "b"] $ \name -> createDirectory (d </> name) >> file size (d </> name)
  let served parts name = (Sites.site (d </> name) [name]) {siteFiles = defaultFileOptions {fileTag = parts}}
      asks parts body = Sites.serving FirstSite (served parts "a" :| [served parts "b"]) $ \running _ -> body $ \name fields -> with running $ \client -> one client "GET" "/f.txt" (("Host", name) : fields)
      tag answer = maybe (unexpected "an entity tag" (show answer)) pure (answerHeader answer "etag")
      one client method' path fields = do
        say client (C.concat ([method', " ", path, " HTTP/1.1\r\n"] ++ [C.concat [n, ": ", v, "\r\n"] | (n, v) <- fields] ++ ["\r\n"]))
        hear client method' >>= maybe (unexpected "an answer" "none") pure
  asks TagOfMtimeAndSize $ \get -> do
    first <- get "a" [] >>= tag
    second <- get "b" [] >>= tag
    first @?= second
    get "b" [("If-None-Match", first)] >>= (@?= 304) . answerCode
    part <- get "b" [("If-Range", first), ("Range", "bytes=10-19")]
    (answerCode part, answerBody part) @?= (206, B.take 10 (B.drop 10 (noise size)))
    -- Another time or size is another version.
    setFileTimes (d </> "b" </> "f.txt") 1577836801 1577836801
    _ <- eventually "another tag" (get "b" [] >>= tag) (/= first)
    pure ()
  setFileTimes (d </> "b" </> "f.txt") 1577836800 1577836800
  asks TagOfAll $ \get -> do
    first <- get "a" [] >>= tag
    get "b" [("If-None-Match", first)] >>= (@?= 200) . answerCode

modified, earlier, later :: ByteString
modified = "Wed, 01 Jan 2020 00:00:00 GMT"
earlier = "Tue, 31 Dec 2019 23:59:59 GMT"
later = "Wed, 01 Jan 2020 00:00:01 GMT"

-- TAG stands for the file's entity tag.
conditions :: [(String, [(ByteString, ByteString)], Int)]
conditions =
  [ ("none", [], 200),
    ("If-None-Match: its tag", [("If-None-Match", "TAG")], 304),
    ("If-None-Match: its tag, weakly", [("If-None-Match", "W/TAG")], 304),
    ("If-None-Match: another", [("If-None-Match", "\"x\"")], 200),
    ("If-None-Match: a list with its tag", [("If-None-Match", "\"x\", TAG")], 304),
    ("If-None-Match: its tag in a second line", [("If-None-Match", "\"x\""), ("If-None-Match", "TAG")], 304),
    ("If-None-Match: a list without it", [("If-None-Match", "\"x\", W/\"y\"")], 200),
    ("If-None-Match: *", [("If-None-Match", "*")], 304),
    ("If-None-Match: not a tag", [("If-None-Match", "x")], 200),
    ("If-Modified-Since: its time", [("If-Modified-Since", modified)], 304),
    ("If-Modified-Since: a second later", [("If-Modified-Since", later)], 304),
    ("If-Modified-Since: a second earlier", [("If-Modified-Since", earlier)], 200),
    ("If-Modified-Since: no time", [("If-Modified-Since", "yesterday")], 200),
    ("If-Modified-Since in RFC 850's form", [("If-Modified-Since", "Wednesday, 01-Jan-20 00:00:00 GMT")], 304),
    ("If-Modified-Since in asctime's form", [("If-Modified-Since", "Wed Jan  1 00:00:00 2020")], 304),
    ("If-None-Match decides before If-Modified-Since", [("If-None-Match", "\"x\""), ("If-Modified-Since", modified)], 200),
    ("If-None-Match decides before If-Modified-Since, the other way", [("If-None-Match", "TAG"), ("If-Modified-Since", earlier)], 304),
    ("If-Match: its tag", [("If-Match", "TAG")], 200),
    ("If-Match: its tag, weakly", [("If-Match", "W/TAG")], 412),
    ("If-Match: another", [("If-Match", "\"x\"")], 412),
    ("If-Match: a list with its tag", [("If-Match", "\"x\",TAG")], 200),
    ("If-Match: *", [("If-Match", "*")], 200),
    ("If-Unmodified-Since: its time", [("If-Unmodified-Since", modified)], 200),
    ("If-Unmodified-Since: a second earlier", [("If-Unmodified-Since", earlier)], 412),
    ("If-Unmodified-Since: no time", [("If-Unmodified-Since", "yesterday")], 200),
    ("If-Match decides before If-Unmodified-Since", [("If-Match", "TAG"), ("If-Unmodified-Since", earlier)], 200),
    ("If-Match fails before If-None-Match is asked", [("If-Match", "\"x\""), ("If-None-Match", "TAG")], 412),
    ("listOnSeveralLinesWasItsFirstLine: If-None-Match", [("If-None-Match", "\"x\""), ("If-None-Match", "TAG")], 304),
    ("listOnSeveralLinesWasItsFirstLine: If-Match", [("If-Match", "\"x\""), ("If-Match", "TAG")], 200),
    ("two dates are none", [("If-Modified-Since", modified), ("If-Modified-Since", modified)], 200),
    ("two ranges on two lines are none", [("Range", "bytes=0-1"), ("Range", "bytes=0-1")], 200),
    ("two lines of If-Range are no tag", [("If-Range", "TAG"), ("If-Range", "TAG"), ("Range", "bytes=0-1")], 200),
    ("a condition decides before a range", [("If-None-Match", "TAG"), ("Range", "bytes=0-1")], 304),
    ("a range after a condition that lets it pass", [("If-None-Match", "\"x\""), ("Range", "bytes=0-1")], 206),
    ("If-Range: its tag", [("If-Range", "TAG"), ("Range", "bytes=0-1")], 206),
    ("If-Range: its tag, weakly", [("If-Range", "W/TAG"), ("Range", "bytes=0-1")], 200),
    ("If-Range: another tag", [("If-Range", "\"x\""), ("Range", "bytes=0-1")], 200),
    ("If-Range: its time", [("If-Range", modified), ("Range", "bytes=0-1")], 206),
    ("If-Range: another time", [("If-Range", later), ("Range", "bytes=0-1")], 200),
    ("If-Range: neither tag nor time", [("If-Range", "x"), ("Range", "bytes=0-1")], 200),
    ("If-Range without Range", [("If-Range", "\"x\"")], 200),
    ("If-Range that fails, and a range past the end", [("If-Range", "\"x\""), ("Range", "bytes=999999-")], 200)
  ]

conditional :: Int -> [(ByteString, ByteString)] -> Int -> IO ()
conditional size fields code = withSite (file size) $ \running -> with running $ \client -> do
  plain <- ask client "GET" "/f.txt" []
  answersWith 200 (noise size) plain
  answerHeader plain "last-modified" @?= Just modified
  answerHeader plain "accept-ranges" @?= Just "bytes"
  let tag = fromMaybe "" (answerHeader plain "etag")
      fill v = case B.breakSubstring "TAG" v of
        (before, after)
          | B.null after -> before
          | otherwise -> before <> tag <> B.drop 3 after
  forM_ [1 :: Int, 2] $ \_ -> do
    answer <- ask client "GET" "/f.txt" [(n, fill v) | (n, v) <- fields]
    answerCode answer @?= code
    answerWhole answer @?= True
    answerHeader answer "etag" @?= Just tag
    case code of
      200 -> answerBody answer @?= noise size
      206 -> answerBody answer @?= B.take 2 (noise size)
      304 -> do
        answerHeader answer "last-modified" @?= Just modified
        answerHeader answer "content-type" @?= Nothing
        answerHeader answer "content-length" @?= Nothing
      _ -> pure ()

heads :: Int -> IO ()
heads size = withSite (file size) $ \running -> with running $ \client ->
  forM_ [1 :: Int, 2] $ \_ -> do
    whole <- ask client "HEAD" "/f.txt" []
    answerCode whole @?= 200
    answerHeader whole "content-length" @?= Just (C.pack (show size))
    same <- ask client "HEAD" "/f.txt" [("If-Modified-Since", modified)]
    answerCode same @?= 304
    failed <- ask client "HEAD" "/f.txt" [("If-Match", "\"x\"")]
    answerCode failed @?= 412
    -- A range is defined for GET alone.
    ignored <- ask client "HEAD" "/f.txt" [("Range", "bytes=0-1")]
    answerCode ignored @?= 200
    answerHeader ignored "content-length" @?= Just (C.pack (show size))

data Expected
  = One (Int, Int)
  | Several [(Int, Int)]
  | Whole
  | Unsatisfied

ranges :: Int -> [(ByteString, Expected)]
ranges size =
  [ ("bytes=0-0", One (0, 0)),
    ("bytes=0-", One (0, final)),
    ("bytes=10-19", One (10, 19)),
    ("bytes=990-99999999999999999999", One (990, final)),
    ("bytes=-1", One (final, final)),
    ("bytes=-10", One (size - 10, final)),
    ("bytes=-99999999", One (0, final)),
    ("BYTES=1-2", One (1, 2)),
    ("bytes=0-1,2-3", One (0, 3)),
    ("bytes=0-5,3-9", One (0, 9)),
    ("bytes=0-0,999999999-", One (0, 0)),
    ("bytes= 0-1 , -1", Several [(0, 1), (final, final)]),
    ("bytes=0-1,10-11,20-21", Several [(0, 1), (10, 11), (20, 21)]),
    ("bytes=20-21,0-1", Several [(20, 21), (0, 1)]),
    ("bytes=999999999-", Unsatisfied),
    ("bytes=999999999-,999999999-9999999999", Unsatisfied),
    ("bytes=-0", Unsatisfied),
    ("bytes=2-1", Whole),
    ("bytes=", Whole),
    ("bytes=-", Whole),
    ("bytes=a-b", Whole),
    ("bytes=0-1,x", Whole),
    ("bytes 0-1", Whole),
    ("lines=0-1", Whole),
    (C.intercalate "," ("bytes=0-0" : [C.pack (show (10 * i) ++ "-" ++ show (10 * i + 1)) | i <- [1 :: Int .. 50]]), Whole)
  ]
  where
    final = size - 1

ranged :: Int -> ByteString -> Expected -> IO ()
ranged size range expected = withSite (file size) $ \running -> with running $ \client ->
  forM_ [1 :: Int, 2] $ \_ -> do
    answer <- ask client "GET" "/f.txt" [("Range", range)]
    agrees size expected answer
    -- The next answer belongs to the next request.
    ask client "GET" "/f.txt" [("Range", "bytes=5-6")] >>= agrees size (One (5, 6))

agrees :: Int -> Expected -> Answer -> IO ()
agrees size expected answer = case expected of
  Whole -> answersWith 200 (noise size) answer
  Unsatisfied -> do
    answerCode answer @?= 416
    answerHeader answer "content-range" @?= Just ("bytes */" <> shown size)
  One (from, to) -> do
    answersWith 206 (slice (from, to)) answer
    answerHeader answer "content-range" @?= Just (B.concat ["bytes ", shown from, "-", shown to, "/", shown size])
    answerHeader answer "content-type" @?= Just "text/plain; charset=utf-8"
  Several parts -> do
    answerCode answer @?= 206
    answerHeader answer "content-range" @?= Nothing
    boundary <- case B.stripPrefix "multipart/byteranges; boundary=" =<< answerHeader answer "content-type" of
      Just b | not (B.null b), B.length b <= 70, C.all (`elem` (['0' .. '9'] ++ ['a' .. 'z'] ++ ['A' .. 'Z'] ++ "-_'()+,./:=?")) b -> pure b
      _ -> unexpected "a boundary fit to stand without quotes" (show (answerHeaders answer))
    let part (from, to) =
          B.concat ["\r\n--", boundary, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes ", shown from, "-", shown to, "/", shown size, "\r\n\r\n", slice (from, to)]
    answersWith 206 (B.concat (map part parts ++ ["\r\n--", boundary, "--\r\n"])) answer
  where
    slice (from, to) = B.take (to - from + 1) (B.drop from (noise size))
    shown = C.pack . show

-- Disjoint ranges with gaps between them, in any order: the parts are exactly as requested.
someRanges :: Int -> Gen [(Int, Int)]
someRanges size = do
  n <- choose (1, 8 :: Int)
  let room = size `div` n
  spans <- mapM (\i -> do from <- choose (i * room, i * room + room - 3); to <- choose (from, i * room + room - 2); pure (from, to)) [0 .. n - 1]
  shuffle spans

manyRanges :: Int -> [(Int, Int)] -> IO ()
manyRanges size rs = withSite (file size) $ \running -> do
  let range = "bytes=" <> C.intercalate "," [C.pack (show from ++ "-" ++ show to) | (from, to) <- rs]
  answer <- asking running "GET" "/f.txt" [("Range", range)]
  when (null rs) (unexpected "ranges" "none")
  agrees size (case rs of [one] -> One one; _ -> Several rs) answer
