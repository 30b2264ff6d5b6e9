{-# LANGUAGE PatternSynonyms #-}

-- |
-- Module      : Heddle.Gateway.Proxy.Tunnel
-- Description : Bytes in both directions, once HTTP is over
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- After 101 (Switching Protocols) each direction has a thread. One that waits owns no buffer. The end of one direction is passed on; then the
-- other one has ten seconds to end too. A failure ends both.
--
-- Cost: two threads; for each piece two system calls and no copy.
-- Owner: the thread that runs the tunnel; it closes the upstream's connection.
module Heddle.Gateway.Proxy.Tunnel
  ( tunnelBetween,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafeUseAsCStringLen)
import Data.Word (Word8)
import Foreign.Ptr (Ptr, castPtr, plusPtr)
import Heddle.Http (Duplex (duplexReceived, duplexTransport), Pace (..))
import Heddle.IO.Registration
import Heddle.IO.Transport
import Heddle.Prim.Atomic (Words, newWords, readWord, writeWord)
import Heddle.Prim.Buffer (bufferSize, withBuffer)
import Heddle.Prim.Clock
import Heddle.Prim.Errno (Errno (..), pattern EAGAIN, pattern EINTR)
import Heddle.Prim.Exception (finally, mask_, onException, uninterruptibleMask_)
import Heddle.Prim.Thread (forkMaskedOn, labelMe)
import Heddle.Prim.WaitCell (newWaitCell, park, unpark)

-- | Pass bytes between a client and an upstream until both directions have ended, one fails, or both have been silent for a time.
-- The upstream's connection is closed; the client's belongs to the caller.
--
-- [Blocks]: parks.
-- [Masking]: interruptible; the upstream's connection is then closed, and the client's does no more work.
tunnelBetween :: Nanos -> Pace -> Duplex -> Duplex -> IO ()
tunnelBetween !silence !pace client upstream = mask_ $ do
  Deadline now <- monotonicNow
  state <- newWords 2
  writeWord state wordLast now
  ended <- newWaitCell
  let front = duplexTransport client
      back = duplexTransport upstream
      -- Ends the waits of the other direction.
      cut = void (closeRegistration (transportRegistration front)) >> void (closeRegistration (transportRegistration back))
      forwards = oneWay silence pace state client back >>= \ok -> unless ok cut
      backwards = oneWay silence pace state upstream front >>= \ok -> unless ok cut
  _ <-
    forkMaskedOn
      (registrationCapability (transportRegistration front))
      (\_ -> (labelMe "gateway/tunnel" >> backwards `onException` cut) `finally` unpark ended)
      `onException` closeTransport back
  -- Only when the other thread has ended can a layer be released. After a cut that takes no time.
  (forwards >> park ended)
    `onException` (cut >> uninterruptibleMask_ (park ended) >> closeTransport back)
  closeTransport back

-- When bytes last came in either direction; whether a direction has ended.
wordLast, wordHalf :: Int
wordLast = 0
wordHalf = 1

-- One direction: whether it has come to its proper end, which was then passed on.
oneWay :: Nanos -> Pace -> Words -> Duplex -> Transport -> IO Bool
oneWay !silence !pace !state !from !to = do
  let first = duplexReceived from
  sent <- if B.null first then pure True else unsafeUseAsCStringLen first (\(p, n) -> deliver (castPtr p) n)
  if sent then receiving else pure False
  where
    source = duplexTransport from
    registration = transportRegistration source
    receiving = do
      buffer <- borrowBuffer registration
      n <- withBuffer buffer $ \p -> do
        n <- readNow source p (bufferSize buffer)
        if n > 0
          then (\sent -> if sent then n else failedCode) <$> deliver p n
          else pure n
      giveBackBuffer registration buffer
      judge n
    judge n
      | n > 0 = receiving
      | n == 0 = do
        half <- readWord state wordHalf
        writeWord state wordHalf 1
        r <- endWriting to
        -- The other direction may be waiting for as long as silence is allowed.
        when (half == 0) (wakeReader (transportRegistration to))
        pure (r >= 0)
      | Errno (negate n) == EINTR = receiving
      | Errno (negate n) == EAGAIN = do
        hung <- hungUp registration
        when hung (forgetHangUp registration)
        deadline <- silentUntil
        late <- deadlineOver registration deadline
        if late then pure False else waitUntil registration Readable deadline >> receiving
      | otherwise = pure False
    silentUntil = do
      latest <- readWord state wordLast
      half <- readWord state wordHalf
      pure (after (if half == 1 then min silence (seconds 10) else silence) (Deadline latest))
    deliver :: Ptr Word8 -> Int -> IO Bool
    deliver p n = do
      Deadline now <- freshNow registration
      writeWord state wordLast now
      r <- writeNow to p n
      if r == n
        then pure True
        else do
          let done = max 0 r
              Pace grace rate = pace
          s <- writeUntil to (p `plusPtr` done) (n - done) (after (grace <> Nanos ((n - done) * 1000000000 `quot` max 1 rate)) (Deadline now))
          pure (s >= 0)

-- No system call answers with it.
failedCode :: Int
failedCode = -100020
