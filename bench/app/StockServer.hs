-- | A server on GHC's own event manager, through the network package: a thread
-- for each connection, and one buffer that lives as long as it.
module StockServer
  ( serveStock,
    sendWhole,
  )
where

import Control.Concurrent (forkFinally)
import Control.Monad (forever, when)
import Data.Word (Word8)
import Foreign.ForeignPtr (mallocForeignPtrBytes, withForeignPtr)
import Foreign.Ptr (Ptr, plusPtr)
import Network.Socket

-- | Serve this port of the loopback interface. The handler has a connection, its
-- buffer, and what was received into it; what it answers is handed to it again
-- with the next input, and at first it is 0.
serveStock :: Int -> Int -> (Socket -> Ptr Word8 -> Int -> Int -> IO Int) -> IO ()
serveStock port room handle = do
  listener <- socket AF_INET Stream defaultProtocol
  setSocketOption listener ReuseAddr 1
  bind listener (SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1)))
  listen listener 4096
  forever $ do
    (connection, _) <- accept listener
    setSocketOption connection NoDelay 1
    forkFinally (converse connection) (\_ -> close connection)
  where
    converse connection = do
      memory <- mallocForeignPtrBytes room
      withForeignPtr memory $ \buffer ->
        let loop state = do
              got <- recvBuf connection buffer room
              when (got > 0) (handle connection buffer got state >>= loop)
         in loop 0

-- | Send all of it.
sendWhole :: Socket -> Ptr Word8 -> Int -> IO ()
sendWhole connection bytes len = do
  sent <- sendBuf connection bytes len
  when (sent < len) (sendWhole connection (bytes `plusPtr` sent) (len - sent))
