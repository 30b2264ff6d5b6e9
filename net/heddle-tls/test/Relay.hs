-- | Something on the way between client and server, which cuts, flips, resets or holds back.
module Relay
  ( Fault (..),
    relay,
  )
where

import Control.Concurrent (forkIO, killThread)
import Control.Concurrent.MVar
import Control.Exception (IOException, bracket, try)
import Control.Monad (forM_, unless, void)
import Data.Bits (xor)
import Data.ByteString qualified as B
import Data.Either (fromRight)
import Fixture
import Network.Socket qualified as N
import Network.Socket.ByteString qualified as NB

-- | What happens to one direction, at how many bytes from its beginning.
data Fault
  = Pass
  | -- | A bit of that byte is wrong.
    Flip Int
  | -- | Nothing comes after that; both connections end.
    End Int
  | -- | The same, but both are reset.
    Reset Int
  | -- | Nothing comes after that.
    Hold Int
  deriving stock (Show)

-- | A relay for one connection: the fault of what the client sends, and of what the server sends.
relay :: Echo -> Fault -> Fault -> (Echo -> IO a) -> IO a
relay echo up down body = bracket (listening (N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1)))) N.close $ \listener -> do
  address <- N.getSocketName listener
  threads <- newMVar []
  bracket (forkIO (void (ignoring (serve listener threads)))) (\t -> killThread t >> (takeMVar threads >>= mapM_ killThread)) $ \_ ->
    body echo {echoAddress = address}
  where
    listening address = do
      s <- N.socket N.AF_INET N.Stream N.defaultProtocol
      N.bind s address
      N.listen s 1
      pure s
    serve listener threads = bracket (fst <$> N.accept listener) N.close $ \toClient -> rawSocket echo $ \toServer -> do
      ended <- newEmptyMVar
      forM_ [(toClient, toServer, up), (toServer, toClient, down)] $ \(from, to, fault) -> modifyMVar_ threads $ \ts -> do
        t <- forkIO (ignoring (pump from to fault 0) >>= putMVar ended . fromRight False)
        pure (t : ts)
      -- The end of one direction is passed on, and the other continues; a fault ends both.
      cut <- takeMVar ended
      unless cut (void (takeMVar ended))
    pump from to fault done = do
      bytes <- NB.recv from 65536
      if B.null bytes
        then False <$ N.shutdown to N.ShutdownSend
        else do
          let next = done + B.length bytes
              before n = NB.sendAll to (B.take (n - done) bytes)
              on = pump from to fault next
          case fault of
            Flip n | n >= done && n < next -> NB.sendAll to (flipped (n - done) bytes) >> on
            End n | n < next -> before n >> pure True
            Reset n | n < next -> do
              before n
              forM_ [from, to] $ \s -> N.setSockOpt s N.Linger (N.StructLinger 1 0)
              pure True
            Hold n | n < next -> before n >> newEmptyMVar >>= takeMVar
            _ -> NB.sendAll to bytes >> on
    flipped i bytes = case B.splitAt i bytes of
      (a, b) -> B.concat [a, B.singleton (B.head b `xor` 4), B.tail b]
    ignoring :: IO a -> IO (Either IOException a)
    ignoring = try
