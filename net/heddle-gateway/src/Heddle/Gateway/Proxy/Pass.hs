-- |
-- Module      : Heddle.Gateway.Proxy.Pass
-- Description : An answer's content, from the upstream to the client
-- Stability   : hidden; "Heddle.Gateway.Proxy" uses it
--
-- Content passes through the connection's buffers as long as the client takes it. When it does not, a second thread takes it from the
-- upstream into memory, as "Heddle.Gateway.Backlog" has it, and returns the upstream's connection at the end, or closes it when the
-- answer is cut short.
--
-- Cost: nothing for a client that takes what comes; otherwise a thread, and a copy of what waits.
-- Owner: the request's thread.
module Heddle.Gateway.Proxy.Pass
  ( passContent,
  )
where

import Control.Monad (unless)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Unsafe (unsafePackCStringLen)
import Foreign.Ptr (castPtr)
import Heddle.Gateway.Backlog
import Heddle.Http (Writer (..))
import Heddle.Http.Client (Response, readResponsePiece, releaseResponse, withResponsePieceIf)
import Heddle.Prim.Exception (onException)

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
          room <- takesMore backlog
          if room
            then passSlowly backlog writer rest (readResponsePiece response `onException` releaseResponse response) (releaseResponse response)
            else unless (B.null rest) (writerPut writer rest) >> writerFlush writer >> go

-- What a piece has become: passed on; there was none; the client has not taken this much, or what was gathered before.
data Step = Passed | Over | Slow !ByteString
