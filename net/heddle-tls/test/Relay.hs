-- | Something on the way between client and server, which cuts, flips, resets or holds back.
module Relay
  ( Fault (..),
    relay,
    relayOver,
  )
where

import Control.Concurrent (forkIOWithUnmask, killThread)
import Control.Concurrent.MVar
import Control.Exception (IOException, SomeException, bracket, bracketOnError, try, uninterruptibleMask_)
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
  | -- | The action runs in the place of the first bytes, which are dropped.
    Call (IO ())
  | -- | The action is given all that passes.
    See (B.ByteString -> IO ())

instance Show Fault where
  showsPrec d = \case
    Pass -> showString "Pass"
    Flip n -> counted "Flip" n
    End n -> counted "End" n
    Reset n -> counted "Reset" n
    Hold n -> counted "Hold" n
    Call _ -> showString "Call"
    See _ -> showString "See"
    where
      counted what n = showParen (d > 10) (showString what . showChar ' ' . showsPrec 11 n)

-- | A relay for one connection: the fault of what the client sends, and of what the server sends. When it returns, its
-- threads have ended and its sockets are closed, the threads first; see Note [Closing under a wait].
relay :: Echo -> Fault -> Fault -> (Echo -> IO a) -> IO a
relay echo = relayOver (rawSocket echo) echo

-- | The same, with another connection to the server.
relayOver :: ((N.Socket -> IO ()) -> IO ()) -> Echo -> Fault -> Fault -> (Echo -> IO a) -> IO a
relayOver connected echo up down body = bracket (listening (N.SockAddrInet 0 (N.tupleToHostAddress (127, 0, 0, 1)))) N.close $ \listener -> do
  address <- N.getSocketName listener
  beside (void (ignoring (serve listener))) (body echo {echoAddress = address})
  where
    listening address = bracketOnError (N.socket N.AF_INET N.Stream N.defaultProtocol) N.close $ \s -> do
      N.bind s address
      N.listen s 1
      pure s
    serve listener = bracket (fst <$> N.accept listener) N.close $ \toClient -> connected $ \toServer -> do
      ended <- newEmptyMVar
      let pumping from to fault = ignoring (pump from to fault 0) >>= putMVar ended . fromRight False
      beside (pumping toClient toServer up) . beside (pumping toServer toClient down) $ do
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
            Call act -> act >> on
            See look -> look bytes >> NB.sendAll to bytes >> on
            _ -> NB.sendAll to bytes >> on
    flipped i bytes = case B.splitAt i bytes of
      (a, b) -> B.concat [a, B.singleton (B.head b `xor` 4), B.tail b]
    ignoring :: IO a -> IO (Either IOException a)
    ignoring = try

-- Run an action in a thread of its own beside the body. When the body ends, the thread is killed, and has ended.
beside :: IO () -> IO a -> IO a
beside act body = bracket start (uninterruptibleMask_ . stop) (const body)
  where
    start = do
      ended <- newEmptyMVar
      t <- forkIOWithUnmask (\unmask -> (try (unmask act) :: IO (Either SomeException ())) >> putMVar ended ())
      pure (t, ended)
    -- Nothing interrupts it, or the socket would be closed under the thread after all. The actions are unmasked, so that
    -- each ends as soon as it is killed.
    stop (t, ended) = killThread t >> takeMVar ended

-- Note [Closing under a wait]
-- ~~~~~~~~~~~~~~~~~~~~~~~~~~~
-- A thread that has found a socket empty, and is about to wait for it in GHC's event manager, has its number in hand. If
-- another thread closes the socket at that moment, epoll_ctl answers EBADF, and GHC's registerFd throws but leaves its
-- entry in the table. When the number belongs to another socket, and that is closed, closeFdWith finds the entry, epoll_ctl
-- answers ENOENT, and closeFdWith throws with the manager's tables taken: that socket stays open, and all later waits of
-- numbers in these tables never end, even for a thread that is killed. So nothing is closed before its threads have ended.
