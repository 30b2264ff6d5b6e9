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
import Heddle.IO
import Heddle.IO.Registration
import Heddle.IO.Service
import Heddle.Prim.Buffer (borrow, giveBack, newBuffer, newPool, withBuffer)
import Heddle.Prim.Clock (after)
import Network.Socket (SockAddr (..), tupleToHostAddress)

-- | Serve this port of the loopback interface. The handler has a connection, its
-- buffer, and what was received into it; what it answers is handed to it again
-- with the next input, and at first it is 0. A connection idles only at 0.
serveHeddle :: Int -> Int -> (Registration -> Ptr Word8 -> Int -> Int -> IO Int) -> IO ()
serveHeddle port room handle = withRuntime defaultConfig $ \runtime -> do
  pools <- smallArrayFromList <$> mapM (\_ -> newPool 64 (newBuffer room)) [1 .. capabilitiesOf runtime]
  let address = SockAddrInet (fromIntegral port) (tupleToHostAddress (127, 0, 0, 1))
      options = defaultListenOptions {listenSpread = PortPerCapability}
      serviceOptions = defaultServiceOptions {serviceName = "bench", serviceFirstByte = seconds 60}
  withListener runtime options address $ \listener -> do
    _ <- startService serviceOptions listener $ \registration -> do
      let pool = indexSmallArray pools (registrationCapability registration)
      buffer <- borrow pool
      next <- withBuffer buffer $ \p ->
        let loop state = do
              got <- receiveUntil registration p room never
              if got <= 0
                then pure Done
                else do
                  state' <- handle registration p got state
                  more <- hungUp registration
                  if state' == 0 && got < room && not more
                    then IdleUntil . after (seconds 60) <$> freshNow registration
                    else loop state'
         in loop 0
      giveBack pool buffer
      markActive registration
      pure next
    forever (threadDelay 1000000000)

-- | Send all of it.
sendWhole :: Registration -> Ptr Word8 -> Int -> IO ()
sendWhole registration bytes len = do
  sent <- sendUntil registration bytes len never
  when (sent < 0) (throwCode "send" sent)
