{-# LANGUAGE OverloadedStrings #-}

-- |
-- Module      : Heddle.Testkit.Scripted
-- Description : Servers that do exactly what a script says
-- Stability   : internal, exempt from the version policy
--
-- Peers for tests of clients and proxies, byte by byte. They stand on the network package, so that a fault of Heddle's sockets does not
-- hide on both sides.
--
-- Cost: a thread for each connection.
-- Owner: 'withScripted', which ends the threads.
module Heddle.Testkit.Scripted
  ( Peer,
    withScripted,
    withScriptedAt,
    hearHead,
    hearExactlyFrom,
    hearToEnd,
    tell,
    tellPieces,
    endTelling,
    resetPeer,
    simple,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Exception (IOException, SomeException, bracket, finally, fromException, mask_, throwIO, try, uninterruptibleMask_)
import Control.Monad (forM_, void)
import Data.ByteString (ByteString)
import Data.ByteString qualified as B
import Data.ByteString.Char8 qualified as C
import Data.IORef
import Heddle.Testkit.Watchdog
import Network.Socket
import Network.Socket.ByteString (recv, sendAll)

-- | One connection that was accepted, and what was received but not consumed.
data Peer = Peer !Socket !(IORef ByteString)

-- | Serve each connection by a script, which is given its number from 0. A script that ends closes its connection. A
-- script's failure is the test's, unless the other side has closed.
withScripted :: (Int -> Peer -> IO ()) -> (SockAddr -> IO a) -> IO a
withScripted = withScriptedAt (SockAddrInet 0 (tupleToHostAddress (127, 0, 0, 1)))

-- | The same at an address, of TCP or a Unix socket.
withScriptedAt :: SockAddr -> (Int -> Peer -> IO ()) -> (SockAddr -> IO a) -> IO a
withScriptedAt address script body = do
  threads <- newIORef []
  failures <- newIORef []
  bracket (socket family Stream 0) close $ \listener -> do
    withFdSocket listener setCloseOnExecIfNeeded
    bind listener address
    listen listener 1024
    bound <- getSocketName listener
    let acceptOn :: Int -> IO ()
        acceptOn i = do
          -- Interruptible only while it waits: a socket that was accepted has its thread, which closes it.
          mask_ $ do
            (s, _) <- accept listener
            withFdSocket s setCloseOnExecIfNeeded
            buffer <- newIORef B.empty
            -- Closing takes locks of the event manager, and the end of the test would interrupt it.
            thread <- forkIOWithUnmask $ \unmask ->
              (try (unmask (script i (Peer s buffer))) >>= either (note failures) pure) `finally` uninterruptibleMask_ (close s)
            modifyIORef' threads (thread :)
          acceptOn (i + 1)
    r <-
      bracket
        (forkIOWithUnmask (\unmask -> void (try (unmask (acceptOn 0)) :: IO (Either SomeException ()))))
        (\acceptor -> killThread acceptor >> readIORef threads >>= mapM_ killThread)
        (\_ -> body bound)
    readIORef failures >>= mapM_ throwIO
    pure r
  where
    family = case address of
      SockAddrUnix _ -> AF_UNIX
      _ -> AF_INET
    note failures (e :: SomeException) = case fromException e of
      Just (Unexpected _) -> modifyIORef' failures (e :)
      -- The other side has closed, or the test is over.
      Nothing -> pure ()

receive :: Peer -> IO ByteString
receive (Peer s _) = patiently "a request" (recv s 65536)

-- | A request's head, with its empty line. At the end of the connection the script ends.
hearHead :: Peer -> IO ByteString
hearHead peer@(Peer _ rest) = do
  bytes <- readIORef rest
  case B.breakSubstring "\r\n\r\n" bytes of
    (headBytes, after)
      | not (B.null after) -> (headBytes <> "\r\n\r\n") <$ writeIORef rest (B.drop 4 after)
      | otherwise -> do
        piece <- receive peer
        if B.null piece then ioError (userError "the other side closed") else writeIORef rest (bytes <> piece) >> hearHead peer

-- | This many bytes.
hearExactlyFrom :: Peer -> Int -> IO ByteString
hearExactlyFrom peer@(Peer _ rest) n = do
  bytes <- readIORef rest
  if B.length bytes >= n
    then B.take n bytes <$ writeIORef rest (B.drop n bytes)
    else do
      piece <- receive peer
      if B.null piece then ioError (userError "the other side closed") else writeIORef rest (bytes <> piece) >> hearExactlyFrom peer n

-- | Everything up to the end of the connection, however it ends.
hearToEnd :: Peer -> IO ByteString
hearToEnd peer@(Peer _ rest) = do
  have <- readIORef rest
  writeIORef rest B.empty
  (have <>) <$> go
  where
    go = do
      piece <- either (\(_ :: IOException) -> B.empty) id <$> try (receive peer)
      if B.null piece then pure B.empty else (piece <>) <$> go

-- | Send bytes.
tell :: Peer -> ByteString -> IO ()
tell (Peer s _) = patiently "the other side to take the bytes" . sendAll s

-- | Each piece in a segment of its own.
tellPieces :: Peer -> [ByteString] -> IO ()
tellPieces peer@(Peer s _) pieces = do
  setSocketOption s NoDelay 1
  forM_ pieces (tell peer)

-- | End the sending direction.
endTelling :: Peer -> IO ()
endTelling (Peer s _) = void (try (shutdown s ShutdownSend) :: IO (Either IOException ()))

-- | Close with a reset.
resetPeer :: Peer -> IO ()
resetPeer (Peer s _) = setSockOpt s Linger (StructLinger 1 0) >> close s

-- | A response of status 200 with this content.
simple :: ByteString -> ByteString
simple content = B.concat ["HTTP/1.1 200 OK\r\nContent-Length: ", C.pack (show (B.length content)), "\r\n\r\n", content]
