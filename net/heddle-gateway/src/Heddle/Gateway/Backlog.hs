-- |
-- Module      : Heddle.Gateway.Backlog
-- Description : Content that waits for a slow client
-- Stability   : hidden; the gateways and the proxy use it
--
-- When a client does not take what there is for it, a second thread takes the content from whoever makes it into memory, up to a size
-- for each answer and one for all together: a client that reads slowly does not occupy a program or an upstream.
--
-- Protocol: the reading thread adds pieces and leaves a token for data; the writing thread takes them out and leaves one for room. Each
-- resets its cell before it looks.
-- Cost: nothing for a client that takes what comes; otherwise a thread, and what waits.
-- Owner: the request's thread.
module Heddle.Gateway.Backlog
  ( Backlog,
    newBacklog,
    takesMore,
    passSlowly,
  )
where

import Control.Monad (unless, void, when)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Heddle.Gateway.Helper
import Heddle.Http (Writer (..))
import Heddle.Prim.Atomic
import Heddle.Prim.Exception (SomeException, finally, throwIO, trySync)
import Heddle.Prim.WaitCell (newWaitCell, park, reset, unpark)

-- | Content that waits for slow clients.
data Backlog = Backlog
  { -- | Most bytes for an answer.
    backlogMost :: !Int,
    -- | Word 0: bytes of all answers.
    backlogBytes :: !Words
  }

-- | For at most this many bytes of an answer.
newBacklog :: Int -> IO Backlog
newBacklog most = Backlog most <$> newWords 1

-- How many bytes wait.
backlogNow :: Backlog -> IO Int
backlogNow backlog = atomicRead (backlogBytes backlog) 0

-- All answers may have as many as this many answers.
answersAtMost :: Int
answersAtMost = 64

-- | Whether another answer may wait. If not, its client occupies what makes it.
--
-- [Cost]: one read.
takesMore :: Backlog -> IO Bool
takesMore backlog = (< answersAtMost * backlogMost backlog) <$> backlogNow backlog

-- Pieces, the last one first, and their bytes; how reading ended.
data Waiting = Waiting ![ByteString] !Int !(Maybe (Either SomeException ()))

-- | Write the rest of a piece and what an action gives, up to its empty end, with a second thread that takes it meanwhile. At the end
-- that thread runs another action, before the writer has taken everything.
--
-- [Cost]: a thread, and what waits.
-- [Blocks]: parks.
-- [Throws]: what the actions throw, after what came before was written; what the writer throws.
passSlowly :: Backlog -> Writer -> ByteString -> IO ByteString -> IO () -> IO ()
passSlowly backlog writer rest pull end' = do
  waiting <- newRef (Waiting [] 0 Nothing)
  came <- newWaitCell
  room <- newWaitCell
  let bytes n = void (fetchAdd (backlogBytes backlog) 0 n)
      reading = do
        -- The writing thread learns of any end but its own interruption of this one.
        end <- trySync (taking >> end')
        modifyRef waiting (\(Waiting pieces n _) -> (Waiting pieces n (Just end), ()))
        unpark came
      taking = do
        awaitRoom
        piece <- pull
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
