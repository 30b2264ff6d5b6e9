{-# LANGUAGE OverloadedStrings #-}

-- | Pages and files: what browsers and other programs read.
module OutputTest (tests) where

import Control.Exception (bracket)
import Control.Monad (forM_)
import Data.Bits (shiftL, testBit, (.&.), (.|.))
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Heddle.Json (decode, defaultLimits)
import Heddle.Json.Decode qualified as Json
import Heddle.Testkit.Browser (inBrowser)
import Heddle.Trace.Log
import Heddle.Trace.Page
import Heddle.Trace.Perfetto
import Heddle.Trace.Speedscope
import Logs
import System.Directory (getTemporaryDirectory, removeFile)
import System.IO (Handle, hClose, openBinaryTempFile)
import Test.Tasty (TestTree, testGroup)
import Test.Tasty.HUnit (assertBool, testCase, testCaseInfo, (@?=))

tests :: TestTree
tests =
  testGroup
    "outputs"
    [ testCase "speedscope's file is JSON with a profile for each core" $ do
        file <- written nasty writeSpeedscope
        either (const False) (const True) (decode defaultLimits Json.skip file) @?= True
        map (`occurrences` file) ["\"type\":\"evented\"", "\"type\":\"O\"", "\"type\":\"C\""] @?= [2, 41, 41],
      testCase "Perfetto's file is a sequence of packets: every begin has its end" $ do
        file <- written nasty writePerfetto
        let events = [kind | packet <- messagesOf 1 file, inner <- messagesOf 11 packet, kind <- numbersOf 9 inner]
        (length (filter (== 1) events), length (filter (== 2) events), length (filter (== 3) events)) @?= (41, 41, 3),
      testCase "nothing of the log ends the page's script" $ do
        page <- written nasty (\h l -> writePage h l (minBound, maxBound))
        C.count '<' (fst (C.breakSubstring "</script>" (snd (C.breakSubstring "{\"program\"" page)))) @?= 0
        C.breakSubstring "<img" page @?= (page, ""),
      testCase "a page of very many runs has at most 5 MB, and says that it has the longest" $ do
        page <- written crowded (\h l -> writePage h l (minBound, maxBound))
        assertBool (show (B.length page)) (B.length page <= 5000000 && B.length page > 500000)
        assertBool "all of them" (not ("\"least\":0," `B.isInfixOf` page)),
      testCaseInfo "Chromium: the page loads, finds a thread, zooms, sorts, and fits a narrow screen" $ do
        page <- written nasty (\h l -> writePage h l (minBound, maxBound))
        let (before, after) = C.breakSubstring "</body>" page
        withFileOf "heddle.html" (before <> probe <> after) $ \path -> inBrowser 500 path $ \dom ->
          forM_ expected $ \line -> assertBool (C.unpack line ++ " in\n" ++ reverse (take 1500 (reverse dom))) (C.unpack line `isIn` dom)
    ]
  where
    isIn needle hay = C.pack needle `B.isInfixOf` C.pack hay
    expected = ["found: evil&lt;/script&gt;&lt;img (7): 20 runs on this page", "zoomed: true", "moved: true", "idle: true", "first row: thread 8", "wide: false", "errors: 0", "marked: true"]

-- Runs in the page after its own script.
probe :: ByteString
probe =
  C.unlines
    [ "<pre id='probe'></pre><script>",
      "let errors = 0; window.onerror = () => { errors++; };",
      "const say = (k, v) => { $('probe').textContent += k + ': ' + v + '\\n'; };",
      "$('search').value = 'evil'; $('search').dispatchEvent(new Event('input')); say('found', $('found').textContent);",
      "const span = to - from; document.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true })); canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: -200, cancelable: true })); say('zoomed', to - from < span / 2);",
      "const was = from; $('right').click(); say('moved', from > was); show(data.begin, data.end);",
      "about(labelWidth + 1, top0 + 5); say('idle', $('about').textContent.includes('idle for'));",
      "$('search').value = ''; $('search').dispatchEvent(new Event('input')); $('threads').tHead.rows[0].cells[8].click(); say('first row', $('threads').tBodies[0].rows[0].cells[0].textContent);",
      "about(xOf(90000), top0 + laneHeight + gap + 5); say('marked', $('about').textContent.includes('markers: io park') && $('marks').tBodies[0].rows.length === 2 && $('workers').tBodies[0].textContent.includes('asleep') === false);",
      "say('wide', document.documentElement.scrollWidth > document.documentElement.clientWidth); draw(); say('errors', errors);",
      "</script>"
    ]

occurrences :: ByteString -> ByteString -> Int
occurrences needle hay = case B.breakSubstring needle hay of
  (_, found)
    | B.null found -> 0
    | otherwise -> 1 + occurrences needle (B.drop (B.length needle) found)

written :: ByteString -> (Handle -> Log -> IO ()) -> IO ByteString
written bytes write = withBytes bytes $ \path -> withLog (C.pack path) $ \l -> do
  folder <- getTemporaryDirectory
  bracket (openBinaryTempFile folder "heddle.out") (removeFile . fst) $ \(to, h) -> do
    write h l
    hClose h
    B.readFile to

-- Thread 7 with a label that is markup runs 20 times on each core, thread 8 once; core 0 begins idle.
nasty :: ByteString
nasty =
  encodeLog
    plain
    [ Block 0 0 100000 (variable 44 1 (B.pack [0, 0, 0, 7] <> "evil</script><img") : concat [turn (1000 * i) 7 7 | i <- [1 .. 20]]),
      Block 1 0 100000 (variable 19 5 "</script><img src=x>" : concat [turn (1000 * i + 500) 9 3 | i <- [1 .. 20]] ++ [event 3 30000 [(4, 8)]] ++ [variable 181 90000 "heddle io park", variable 181 90000 "heddle sched steal"] ++ turn 90000 8 5)
    ]
  where
    turn t thread reason = [event 1 t [(4, thread)], event 2 (t + 300) [(4, thread), (2, reason), (4, 0)]]

-- 300,000 runs of 4 cores.
crowded :: ByteString
crowded = encodeLog plain [Block c 0 100000000 (concat [[event 1 (1000 * i) [(4, c)], event 2 (1000 * i + 1 + (i * 7919) `mod` 900) [(4, c), (2, 7), (4, 0)]] | i <- [0 .. 74999]]) | c <- [0 .. 3]]

-- A protocol buffer's fields.
messagesOf :: Int -> ByteString -> [ByteString]
messagesOf tag bytes = [b | (t, Right b) <- fields bytes, t == tag]

numbersOf :: Int -> ByteString -> [Int]
numbersOf tag bytes = [n | (t, Left n) <- fields bytes, t == tag]

fields :: ByteString -> [(Int, Either Int ByteString)]
fields bytes
  | B.null bytes = []
  | key .&. 7 == 0 = let (n, more) = varint rest in (key `div` 8, Left n) : fields more
  | key .&. 7 == 2 = let (n, more) = varint rest in (key `div` 8, Right (B.take n more)) : fields (B.drop n more)
  | otherwise = error ("wire type " ++ show (key .&. 7))
  where
    (key, rest) = varint bytes

varint :: ByteString -> (Int, ByteString)
varint bytes = case B.uncons bytes of
  Just (b, rest)
    | testBit b 7 -> let (n, more) = varint rest in (fromIntegral (b .&. 127) .|. (n `shiftL` 7), more)
    | otherwise -> (fromIntegral b, rest)
  Nothing -> (0, bytes)
