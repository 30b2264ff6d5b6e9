{-# LANGUAGE OverloadedStrings #-}

-- | How connections end: by silence, by a peer that reads nothing, by interruptions and exceptions; senders on many
-- threads; what is left behind.
module EndsTest (tests) where

import Control.Concurrent (forkIO, killThread, myThreadId, threadDelay)
import Control.Concurrent.MVar
import Control.Exception (ErrorCall (..), SomeException, fromException, throwIO, try)
import Control.Monad (forM, forM_, forever, replicateM, replicateM_, unless, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Lazy qualified as L
import Data.List (sort)
import Fixture
import Heddle.Bytes.Utf8 (Utf8, validate)
import Heddle.Prim.Clock (deadlineIn, milliseconds, seconds)
import Heddle.Prim.Exception (describeException)
import Heddle.Testkit.Watchdog
import Heddle.WebSocket
import Heddle.WebSocket.Codec (Deflating (..), deflateMessage, flateCount)
import System.Mem (performMajorGC)
import Test.Tasty
import Test.Tasty.HUnit

tests :: TestTree
tests =
  testGroup
    "ends"
    [ testGroup "silence" silence,
      testGroup "closing" closing,
      testGroup "interruptions" interruptions,
      testGroup "senders" senders
    ]

utf8 :: ByteString -> Utf8
utf8 = either (error . show) id . validate

-- Serve with a body whose end is noted; then the outcome of the last session.
noting :: WebSocketOptions -> (Connection -> IO ()) -> (IO (Either SomeException ()) -> Peer -> IO a) -> IO a
noting options body use = do
  outcome <- newEmptyMVar
  serving options (\conn -> try (body conn) >>= \r -> putMVar outcome r >> either throwIO pure r) $ \address ->
    withPeer address (use (patiently "the session's body to end" (takeMVar outcome)))

endedBy :: Either SomeException () -> ConnectionEnded -> Assertion
endedBy outcome expected = case outcome of
  Left e | Just seen <- fromException e -> seen @?= expected
  other -> assertFailure ("expected " ++ show expected ++ ", but got " ++ either describeException show other)

silence :: [TestTree]
silence =
  [ testCase "a silent peer is pinged, and given up" $
      noting defaults {optionPing = milliseconds 20, optionPong = milliseconds 20} echo $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x89 ""))
        hearsEnd peer
        o <- outcome
        o `endedBy` TimedOut "it did not answer a ping",
    testCase "one that answers is kept" $
      noting defaults {optionPing = milliseconds 10} echo $ \outcome peer -> do
        replicateM_ 3 $ do
          hearFrame peer >>= (@?= Just (Frame 0x89 ""))
          say peer (masked 0x8a "")
        say peer (closeFrame 1000 "")
        o <- outcome
        o `endedBy` PeerClosed NormalClosure mempty,
    testCase "a peer that takes nothing is given up, and the receiver learns of it" $ do
      failed <- newEmptyMVar
      let body conn = do
            _ <- forkIO (try (forever (sendBinary conn (B.replicate 1000000 1))) >>= putMVar failed)
            echo conn
      noting defaults {optionSend = milliseconds 50, optionDeflate = Nothing} body $ \outcome _ -> do
        Left e <- patiently "sending to fail" (takeMVar failed)
        e @?= TimedOut "it took nothing of what was sent"
        o <- outcome
        o `endedBy` TimedOut "it took nothing of what was sent",
    testCase "receiveUntil: late, and what has arrived is kept" $
      noting defaults waiting $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x81 "late"))
        say peer (B.take 8 (masked 0x81 "in two parts"))
        hearFrame peer >>= (@?= Just (Frame 0x81 "late"))
        say peer (B.drop 8 (masked 0x81 "in two parts"))
        hearMessage peer "in two parts"
        say peer (closeFrame 1000 "")
        o <- outcome
        o `endedBy` PeerClosed NormalClosure mempty,
    testCase "the end without a Close" $
      noting defaults echo $ \outcome peer -> do
        endSending peer
        o <- outcome
        o `endedBy` Lost "the peer closed its end",
    testCase "the end within a frame" $
      noting defaults echo $ \outcome peer -> do
        say peer (B.take 5 (masked 0x81 "cut off"))
        endSending peer
        o <- outcome
        o `endedBy` Lost "the peer closed its end",
    testCase "a reset" $
      noting defaults echo $ \outcome peer -> do
        hangUp peer
        outcome >>= \case
          Left e | Just (Lost _) <- fromException e -> pure ()
          other -> assertFailure (show other)
  ]
  where
    -- Says "late" until a message comes, as soon as something has arrived.
    waiting conn = forever $ do
      deadline <- deadlineIn (milliseconds 20)
      receiveUntil conn deadline >>= \case
        Nothing -> sendText conn "late"
        Just (TextMessage text) -> sendText conn text
        Just (BinaryMessage bytes) -> sendBinary conn bytes
    hearMessage peer text =
      hearFrame peer >>= \case
        Just (Frame 0x81 "late") -> hearMessage peer text
        other -> other @?= Just (Frame 0x81 text)

closing :: [TestTree]
closing =
  [ testCase "when the body returns: 1000, and the peer's Close is awaited" $
      noting defaults (`sendText` "bye") $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x81 "bye"))
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xe8"))
        -- What it sends before that is dropped.
        say peer (masked 0x81 "one more" <> masked 0x89 "ping" <> masked 0x01 "half" <> closeFrame 1000 "")
        hearsEnd peer
        outcome >>= either (assertFailure . describeException) pure,
    testCase "with a code and a reason; then nothing is sent" $
      noting defaults (\conn -> close conn (CloseCode 4000) "enough" >> close conn NormalClosure "" >> (try (sendText conn "x") >>= (@?= Left Closed)) >> echo conn) $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x88 "\x0f\xa0\&enough"))
        say peer (closeFrame 4000 "indeed")
        hearsEnd peer
        o <- outcome
        o `endedBy` PeerClosed (CloseCode 4000) "indeed",
    testCase "messages are received until the peer's Close" $
      noting defaults (\conn -> close conn NormalClosure "" >> receive conn >>= (@?= TextMessage "still") >> void (receive conn)) $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xe8"))
        say peer (masked 0x81 "still" <> closeFrame 1000 "")
        hearsEnd peer
        o <- outcome
        o `endedBy` PeerClosed NormalClosure mempty,
    testCase "a peer that does not answer the Close" $
      noting defaults {optionClose = milliseconds 20} (\conn -> close conn NormalClosure "" >> echo conn) $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xe8"))
        o <- outcome
        o `endedBy` TimedOut "it did not answer the Close"
        hearsEnd peer,
    testCase "nor one that sends for ever instead" $
      noting defaults {optionClose = milliseconds 20} (\conn -> close conn NormalClosure "" >> forever (receive conn)) $ \outcome peer -> do
        flood <- forkIO (forever (say peer (masked 0x82 (B.replicate 60000 1))))
        o <- outcome
        killThread flood
        o `endedBy` TimedOut "it did not answer the Close",
    testCase "another thread's close ends a receiver that waits" $ do
      let body conn = do
            _ <- forkIO (sendText conn "before" >> close conn GoingAway "")
            echo conn
      -- The Close must leave within this time, also where its thread is late.
      noting defaults {optionClose = seconds 1} body $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x81 "before"))
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xe9"))
        o <- outcome
        o `endedBy` TimedOut "it did not answer the Close",
    testCase "an exception of the body: 1011" $
      noting defaults {optionClose = milliseconds 20} (\_ -> throwIO (ErrorCall "ours")) $ \outcome peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xf3"))
        outcome >>= \case
          Left e | Just (ErrorCall "ours") <- fromException e -> pure ()
          other -> assertFailure (show other),
    testCase "an exception between pieces: 1011" $
      noting defaults {optionClose = milliseconds 20} (\conn -> sendTextPieces conn (\put -> put "begun" >> throwIO (ErrorCall "ours"))) $ \_ peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x01 "begun"))
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xf3")),
    testCase "an exception before the first piece leaves the connection as it is" $
      noting defaults (\conn -> (try (sendTextPieces conn (\_ -> throwIO (ErrorCall "ours"))) :: IO (Either ErrorCall ())) >> sendText conn "on" >> echo conn) $ \_ peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x81 "on"))
        say peer (closeFrame 1000 ""),
    testCase "what cannot be sent" $
      noting
        defaults
        ( \conn -> do
            try (close conn (CloseCode 1005) "") >>= (@?= Left (CodeNotAllowed (CloseCode 1005)))
            try (close conn NormalClosure (utf8 (B.replicate 124 97))) >>= (@?= Left (ControlTooLong 124))
            try (sendPing conn (B.replicate 126 97)) >>= (@?= Left (ControlTooLong 126))
            sendPing conn "fine"
        )
        $ \outcome peer -> do
          hearFrame peer >>= (@?= Just (Frame 0x89 "fine"))
          outcome >>= either (assertFailure . describeException) pure
          say peer (closeFrame 1000 ""),
    testCase "after the session, every call throws" $ do
      kept <- newEmptyMVar
      serving defaults (putMVar kept) $ \address -> withPeer address $ \peer -> do
        conn <- patiently "the connection" (takeMVar kept)
        say peer (closeFrame 1000 "")
        hearUntilEnd peer >>= (@?= [Frame 0x88 "\3\xe8"])
        _ <- eventually "receiving to fail" (try (receive conn) :: IO (Either ConnectionEnded Message)) (either (const True) (const False))
        Left (_ :: ConnectionEnded) <- eventually "sending to fail" (try (sendText conn "x")) (either (const True) (const False))
        close conn NormalClosure ""
  ]

interruptions :: [TestTree]
interruptions =
  [ testCase "a thread that waits for a message: 1001, at once" $ do
      thread <- newEmptyMVar
      serving defaults (\conn -> myThreadId >>= putMVar thread >> echo conn) $ \address -> withPeer address $ \peer -> do
        patiently "its thread" (takeMVar thread) >>= killThread
        hearUntilEnd peer >>= (@?= [Frame 0x88 "\3\xe9"]),
    testCase "one that is in the middle of sending: the connection is cut" $ do
      thread <- newEmptyMVar
      serving defaults {optionDeflate = Nothing} (\conn -> myThreadId >>= putMVar thread >> forever (sendBinary conn (B.replicate 4000000 1))) $ \address -> withPeer address $ \peer -> do
        -- The peer reads nothing, so the sender is stuck soon; wherever it is, the connection ends.
        patiently "its thread" (takeMVar thread) >>= killThread
        r <- try (hearUntilEnd peer)
        case r of
          Left (_ :: Unexpected) -> pure ()
          Right frames -> assertBool "no frame is made up" (all (\(Frame first _) -> first == 0x82 || first == 0x88) frames),
    testCase "a sender that waits for its turn: the connection goes on" $ do
      results <- newEmptyMVar
      let body conn = do
            started <- newEmptyMVar
            release <- newEmptyMVar
            _ <- forkIO (sendTextPieces conn (\put -> put "long" >> putMVar started () >> takeMVar release))
            takeMVar started
            waiter <- forkIO (sendText conn "never")
            killThread waiter
            putMVar release ()
            sendText conn "after"
            putMVar results ()
            echo conn
      noting defaults body $ \_ peer -> do
        patiently "the body" (takeMVar results)
        frames <- replicateM 3 (hearFrame peer)
        frames @?= [Just (Frame 0x01 "long"), Just (Frame 0x80 ""), Just (Frame 0x81 "after")]
        say peer (closeFrame 1000 ""),
    testCase "at any moment of a busy conversation, nothing is left behind" $ do
      small <- deflateMessage (Deflating 1 15 0) (B.replicate 20000 97) >>= maybe (assertFailure "not compressible") pure
      performMajorGC
      before <- flateCount
      forM_ [0 .. 60 :: Int] $ \i -> do
        thread <- newEmptyMVar
        serving defaults {optionDeflate = Just (DeflateOptions 1 0), optionMessageLimit = 100000} (\conn -> myThreadId >>= putMVar thread >> echo conn) $ \address ->
          withPeerOffering address ["Sec-WebSocket-Extensions: permessage-deflate"] $ \_ peer -> do
            t <- patiently "its thread" (takeMVar thread)
            -- Whole messages, then one that stays incomplete.
            say peer (B.concat (replicate 5 (masked 0xc1 small)) <> B.take (B.length small `quot` 2) (masked 0xc1 small))
            killer <- forkIO (threadDelay (i * 37) >> killThread t)
            _ <- try (hearUntilEnd peer) :: IO (Either Unexpected [Frame])
            killThread killer
      -- Of the two kinds that are used here, one is kept for each of the two capabilities.
      void (eventually "zlib's streams to be freed" (performMajorGC >> flateCount) (<= before + 4))
  ]

senders :: [TestTree]
senders =
  [ testCase "messages of many threads are whole, and in each thread's order" $ do
      let message i j = C.pack (show i ++ " " ++ show j ++ " ") <> B.replicate (j * 97) 120
          count = 40
          body conn = do
            finished <- forM [1 .. 8 :: Int] $ \i -> do
              done <- newEmptyMVar
              _ <- forkIO (forM_ [1 .. count] (\j -> if even j then sendText conn (utf8 (message i j)) else sendBinaryLazy conn (L.fromChunks [B.take 3 (message i j), B.drop 3 (message i j)])) >> putMVar done ())
              pure done
            mapM_ takeMVar finished
      noting defaults {optionDeflate = Nothing} body $ \_ peer -> do
        frames <- replicateM (8 * count) (hearFrame peer)
        let heard = [(read (C.unpack a) :: Int, read (C.unpack b) :: Int, payload) | Just (Frame _ payload) <- frames, a : b : _ <- [C.words payload]]
        forM_ [1 .. 8] $ \i -> [j | (i', j, _) <- heard, i' == i] @?= [1 .. count]
        sort [p | (_, _, p) <- heard] @?= sort [message i j | i <- [1 .. 8 :: Int], j <- [1 .. count]]
        hearFrame peer >>= (@?= Just (Frame 0x88 "\3\xe8"))
        say peer (closeFrame 1000 ""),
    testCase "a ping is answered while another thread's message is under way" $ do
      release <- newEmptyMVar
      let body conn = do
            _ <- forkIO (sendTextPieces conn (\put -> put "first" >> takeMVar release >> put "second"))
            echo conn
      noting defaults body $ \_ peer -> do
        hearFrame peer >>= (@?= Just (Frame 0x01 "first"))
        say peer (masked 0x89 "now")
        hearFrame peer >>= (@?= Just (Frame 0x8a "now"))
        putMVar release ()
        hearFrame peer >>= (@?= Just (Frame 0x00 "second"))
        hearFrame peer >>= (@?= Just (Frame 0x80 ""))
        say peer (closeFrame 1000 ""),
    testCase "a reader and a writer on threads of their own; long messages both ways at once" $ do
      let long = B.replicate 3000000 5
          body conn = do
            done <- newEmptyMVar
            _ <- forkIO (sendBinary conn long >> putMVar done ())
            receive conn >>= (@?= BinaryMessage long)
            takeMVar done
      noting defaults {optionMessageLimit = 3000000, optionDeflate = Nothing} body $ \outcome peer -> do
        writer <- newEmptyMVar
        _ <- forkIO (say peer (masked 0x82 long) >> putMVar writer ())
        hearFrame peer >>= \f -> unless (f == Just (Frame 0x82 long)) (assertFailure "another frame")
        takeMVar writer
        outcome >>= either (assertFailure . describeException) pure
        say peer (closeFrame 1000 ""),
    testCase "a pong does not wait for a program that takes its time, though more input has come" $ do
      gate <- newEmptyMVar
      noting defaults (\conn -> receive conn >> takeMVar gate >> echo conn) $ \_ peer -> do
        say peer (masked 0x89 "1" <> masked 0x89 "2" <> masked 0x81 "one" <> masked 0x81 "two")
        hearFrame peer >>= (@?= Just (Frame 0x8a "1"))
        hearFrame peer >>= (@?= Just (Frame 0x8a "2"))
        putMVar gate ()
        hearFrame peer >>= (@?= Just (Frame 0x81 "two"))
        say peer (closeFrame 1000 ""),
    testCase "frames gathered while more input waits leave before the receiver does, or when flushed" $ do
      gate <- newEmptyMVar
      let body conn = do
            m <- receive conn
            m @?= TextMessage "one"
            sendText conn "gathered"
            flush conn
            takeMVar gate
            echo conn
      noting defaults body $ \_ peer -> do
        say peer (masked 0x81 "one" <> masked 0x81 "two")
        hearFrame peer >>= (@?= Just (Frame 0x81 "gathered"))
        putMVar gate ()
        hearFrame peer >>= (@?= Just (Frame 0x81 "two"))
        say peer (closeFrame 1000 "")
  ]
