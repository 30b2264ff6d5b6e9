-- | A server on heddle-io: a connection borrows a buffer while it has input, and
-- has a thread only while it is busy.
module HeddleServer
  ( serveHeddle,
    sendWhole,
  )
where

import Control.Concurrent (threadDelay)
import Control.Monad (forever, when)
import Data.Primitive.SmallArray (indexSmallArray, smallArrayFromList)
import Data.Word (Word8)
import Foreign.Ptr (Ptr)
import Heddle.IO.Internal
import Heddle.Prim.Buffer (borrow, giveBack, newBuffer, newPool, withBuffer)
import Heddle.Prim.Clock (after, never, seconds)
import Network.Socket (SockAddr (..), tupleToHostAddress)

-- | Serve this port of the loopback interface. The handler has a connection, its
-- buffer, and what was received into it; what it answers is handed to it again
-- with the next input, and at first it is 0. A connection idles only at 0.
serveHeddle :: Int -> Int -> (Slot -> Ptr Word8 -> Int -> Int -> IO Int) -> IO ()
serveHeddle port room handle = withRuntime defaultConfig $ \runtime -> do
  pools <- smallArrayFromList <$> mapM (\_ -> newPool 64 (newBuffer room)) [1 .. capabilitiesOf runtime]
  let address = SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))
      options = defaultListenOptions {listenSpread = PortPerCapability}
  withListener runtime options address $ \listener -> do
    _ <-
      startService
        listener
        ServiceOptions
          { serviceName = "bench",
            serviceFirstByte = seconds 60,
            serviceHandler = \slot -> do
              let pool = indexSmallArray pools (managerCapability (slotManager slot))
              buffer <- borrow pool
              next <- withBuffer buffer $ \p ->
                let loop state = do
                      got <- receiveUntil slot p room never
                      if got <= 0
                        then pure Done
                        else do
                          state' <- handle slot p got state
                          more <- hungUp slot
                          if state' == 0 && got < room && not more
                            then IdleUntil . after (seconds 60) <$> freshNow (slotManager slot)
                            else loop state'
                 in loop 0
              giveBack pool buffer
              markActive slot
              pure next,
            serviceFailed = print,
            servicePaused = print,
            serviceLimit = maxBound,
            serviceCrowded = print
          }
    forever (threadDelay 1000000000)

-- | Send all of it.
sendWhole :: Slot -> Ptr Word8 -> Int -> IO ()
sendWhole slot bytes len = do
  sent <- sendAllUntil slot bytes len never
  when (sent < 0) (throwCode "send" sent)
