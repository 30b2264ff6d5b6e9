-- |
-- Module      : Heddle.Gateway.Proxy.Pass
-- Description : An answer's content, from the upstream to the client
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- Content passes through the connection's buffers as long as the client takes it. When it does not, a second thread takes it from the
-- upstream into memory, up to a size for each answer and one for all of a capability, and returns the upstream's connection at the end: a
-- client that reads slowly does not occupy the upstream.
--
-- Protocol: the reading thread adds pieces and leaves a token for data; the writing thread takes them out and leaves one for room. Each
-- resets its cell before it looks.
-- Cost: nothing for a client that takes what comes; otherwise a thread, and a copy of what waits.
-- Owner: the request's thread.
module Heddle.Gateway.Proxy.Pass
  ( Backlog,
    newBacklog,
    backlogNow,
    passContent,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Foreign.Ptr (castPtr)
import Heddle.Gateway.Relay (withHelper)
import Heddle.Http (Writer (..))
import Heddle.Http.Client (Response, readResponsePiece, releaseResponse, withResponsePieceIf)
import Heddle.Prim.Atomic
import Heddle.Prim.Exception (SomeException, finally, throwIO, trySync)
import Heddle.Prim.WaitCell (newWaitCell, park, reset, unpark)

-- | What waits for the slow clients of a capability.
data Backlog = Backlog
  { -- | Most bytes for an answer.
    backlogMost :: !Int,
    -- | Word 0: bytes of all answers.
    backlogBytes :: !Words
  }

-- | For at most this many bytes of an answer.
newBacklog :: Int -> IO Backlog
newBacklog most = Backlog most <$> newWords 1

-- | How many bytes wait.
backlogNow :: Backlog -> IO Int
backlogNow backlog = atomicRead (backlogBytes backlog) 0

-- All answers of a capability may have as many as this many answers.
answersAtMost :: Int
answersAtMost = 64

-- | Pass all of an answer's content on.
--
-- [Blocks]: parks.
-- [Throws]: 'Heddle.Http.Client.ClientError', and what the writer throws.
passContent :: Backlog -> Response -> Writer -> IO ()
passContent backlog response writer = go
  where
    go = do
      -- Before a wait for the upstream, the client gets what there is.
      step <- withResponsePieceIf response (writerTryFlush writer) $ \p n -> case n of
        0 -> pure Over
        -1 -> pure (Slow B.empty)
        _ -> do
          piece <- unsafePackCStringLen (castPtr p, n)
          taken <- writerOffer writer piece
          -- The piece lies in memory that the next one will use.
          if taken == n then pure Passed else pure $! Slow (B.copy (B.drop taken piece))
      case step of
        Passed -> go
        Over -> pure ()
        Slow rest -> do
          full <- (>= answersAtMost * backlogMost backlog) <$> backlogNow backlog
          if full || backlogMost backlog <= 0
            then unless (B.null rest) (writerPut writer rest) >> writerFlush writer >> go
            else passSlowly backlog response writer rest

-- What a piece has become: passed on; there was none; the client has not taken this much, or what was gathered before.
data Step = Passed | Over | Slow !ByteString

-- Pieces, the last one first, and their bytes; how reading ended.
data Waiting = Waiting ![ByteString] !Int !(Maybe (Either SomeException ()))

passSlowly :: Backlog -> Response -> Writer -> ByteString -> IO ()
passSlowly backlog response writer rest = do
  waiting <- newRef (Waiting [] 0 Nothing)
  came <- newWaitCell
  room <- newWaitCell
  let bytes n = void (fetchAdd (backlogBytes backlog) 0 n)
      reading = do
        -- The writing thread learns of any end but its own interruption of this one.
        end <- trySync (taking >> releaseResponse response)
        modifyRef waiting (\(Waiting pieces n _) -> (Waiting pieces n (Just end), ()))
        unpark came
      taking = do
        awaitRoom
        piece <- readResponsePiece response
        unless (B.null piece) $ do
          let !n = B.length piece
          bytes n
          modifyRef waiting (\(Waiting pieces held end) -> (Waiting (piece : pieces) (held + n) end, ()))
          unpark came
          taking
      awaitRoom = do
        _ <- reset room
        Waiting _ held _ <- readRef waiting
        all' <- backlogNow backlog
        when (held > 0 && (held >= backlogMost backlog || all' >= answersAtMost * backlogMost backlog)) (park room >> awaitRoom)
      writing = do
        _ <- reset came
        Waiting pieces held end <- modifyRef waiting (\w@(Waiting _ _ end) -> (Waiting [] 0 end, w))
        case end of
          _ | not (null pieces) -> do
            -- They count until they are the client's.
            mapM_ (writerPut writer) (reverse pieces) `finally` bytes (negate held)
            unpark room
            writing
          Nothing -> writerFlush writer >> moreOr (park came) >> writing
          Just result -> either throwIO pure result
      -- Something may have come while the client was waited for.
      moreOr act = do
        Waiting pieces _ end <- readRef waiting
        when (null pieces && null end) act
      left = readRef waiting >>= \(Waiting _ held _) -> bytes (negate held)
  withHelper "gateway/slow" reading (writerPut' rest >> writing) `finally` left
  where
    writerPut' piece = unless (B.null piece) (writerPut writer piece)
