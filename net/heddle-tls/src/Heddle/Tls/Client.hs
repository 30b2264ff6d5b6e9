-- |
-- Module      : Heddle.Tls.Client
-- Description : Sessions with servers
-- Stability   : hidden; "Heddle.Tls" exports it
--
-- A client verifies that the server's certificate leads to an authority and has the server's name. It keeps one session
-- for each server, with which the next handshake is shorter.
--
-- Cost: 0.3 ms for a full handshake.
-- Owner: any thread may connect.
module Heddle.Tls.Client
  ( TlsClient,
    newTlsClient,
    tlsConnecting,
  )
where

import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.Map.Strict (Map)
import Data.Map.Strict qualified as Map
import Foreign.ForeignPtr (ForeignPtr, newForeignPtr, withForeignPtr)
import Foreign.Ptr (nullPtr)
import Heddle.IO.Transport (Opened (..), Opening)
import Heddle.Prim.Atomic (Ref, modifyRef, newRef)
import Heddle.Tls.Config
import Heddle.Tls.Foreign
import Heddle.Tls.Problem
import Heddle.Tls.Session
import Heddle.Tls.Site

-- | Settings, checked and loaded, and sessions to be resumed.
data TlsClient = TlsClient
  { clientSite :: !ClientSite,
    -- | By the server's name. A session is taken out for use, because a ticket of TLS 1.3 is to be used once.
    clientSessions :: !(Ref (Map ByteString (ForeignPtr ())))
  }

-- | Load a client's settings.
--
-- [Cost]: reads the files; with the system's authorities, 10 ms and about 1 MB: share the client.
-- [Blocks]: holds an OS thread while it reads.
newTlsClient :: TlsClientConfig -> IO (Either [TlsProblem] TlsClient)
newTlsClient config = loadClientSite config >>= traverse (\site -> TlsClient site <$> newRef Map.empty)

-- | Open a session with the server of this name, or of this address written as text. The connection has just been
-- established; nothing has been sent on it.
--
-- [Cost]: 0.3 ms; 14 KB while it is open.
-- [Blocks]: parks.
-- [Masking]: the caller is masked; waits are interruptible, and an interruption leaves nothing behind.
-- [Threads]: any, one for each connection.
tlsConnecting :: TlsClient -> ByteString -> Opening
tlsConnecting client host registration deadline
  | B.null host || B.elem 0 host = pure (NotOpened "the server's name is empty or has a zero byte")
  | otherwise = do
    known <- modifyRef (clientSessions client) (\sessions -> (Map.delete host sessions, Map.lookup host sessions))
    conn <- withClientSite (clientSite client) $ \site -> B.useAsCString host $ \name ->
      maybe (\use -> use nullPtr) withForeignPtr known (c_connect site name)
    if conn == nullPtr
      then pure (NotOpened "the server's name is not usable, or memory has run out")
      else newSession registration conn keep >>= \session -> handshakeUntil session deadline
  where
    keep conn = do
      new <- c_takeSession conn
      if new == nullPtr
        then pure ()
        else do
          session <- newForeignPtr p_sessionFree new
          modifyRef (clientSessions client) $ \sessions ->
            (Map.insert host session (if Map.size sessions >= 256 then Map.empty else sessions), ())
