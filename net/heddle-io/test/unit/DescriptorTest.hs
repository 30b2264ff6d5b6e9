-- | Waiting on any descriptor, and callbacks.
module DescriptorTest (tests) where

import Control.Concurrent hiding (threadWaitRead, threadWaitWrite)
import Control.Exception
import Control.Monad
import Data.ByteString.Char8 qualified as C
import Data.ByteString.Internal qualified as BI
import Foreign.Marshal.Alloc (allocaBytes)
import Foreign.Ptr (castPtr)
import Harness
import Heddle.IO
import Heddle.IO.Internal.Runtime (runtimeLive)
import Heddle.Prim.Errno
import Heddle.Testkit.Descriptors (openDescriptor)
import System.Posix.IO (FdOption (..), OpenMode (..), closeFd, dupTo, fdReadBuf, fdWrite, setFdOption)
import System.Posix.Types (Fd)
import Test.Tasty
import Test.Tasty.HUnit

-- Read one byte.
byte :: Fd -> IO Char
byte fd = do
  b <- BI.create 1 (\p -> void (fdReadBuf fd (castPtr p) 1))
  pure (C.head b)

-- Read what a pipe holds.
drain :: Fd -> IO ()
drain fd = allocaBytes 65536 (\p -> void (fdReadBuf fd p 65536))

-- Fill a pipe.
stuff :: Fd -> IO ()
stuff w = do
  setFdOption w NonBlockingRead True
  let go = try (fdWrite w (replicate 65536 'x')) >>= either (\e -> const (pure ()) (e :: IOException)) (const go)
      small = try (fdWrite w "x") >>= either (\e -> const (pure ()) (e :: IOException)) (const small)
  go >> small

tests :: TestTree
tests =
  testGroup
    "Heddle.IO descriptors"
    [ bothBackends "aNumberClosedWhileWaitedOnServesTheNext" $ \rt -> withPipe $ \(r, _) -> withPipe $ \(r', w') -> do
        old <- forkTask (threadWaitRead rt r)
        waitParked (taskThread old)
        -- The number becomes another pipe's, unnoticed by the waiter.
        _ <- dupTo r' r
        near <- late
        new <- forkTask (threadWaitReadUntil rt r near)
        waitParked (taskThread new)
        _ <- fdWrite w' "a"
        joinTask new >>= (@?= True)
        _ <- killTask old
        byte r >>= (@?= 'a')
        -- The same again: no waiter was left over.
        again <- forkTask (threadWaitReadUntil rt r near)
        waitParked (taskThread again)
        _ <- fdWrite w' "b"
        joinTask again >>= (@?= True),
      bothBackends "aRegisteredNumberClosedElsewhereServesTheNext" $ \rt -> withPipe $ \(r, _) -> withPipe $ \(r', w') -> do
        lost <- register rt r
        _ <- dupTo r' r
        conn <- register rt r
        -- Closing the connection that was lost does not touch the one that has its number.
        close lost
        near <- late
        reader <- forkTask (recvUntil conn 10 near)
        waitParked (taskThread reader)
        _ <- fdWrite w' "c"
        joinTask reader >>= got >>= (@?= C.pack "c")
        deregister conn >>= (@?= Just r),
      bothBackends "readable at once, later, at the end" $ \rt -> withPipe $ \(r, w) -> do
        _ <- fdWrite w "a"
        threadWaitRead rt r
        byte r >>= (@?= 'a')
        waiter <- forkTask (threadWaitRead rt r)
        waitParked (taskThread waiter)
        _ <- fdWrite w "b"
        joinTask waiter
        -- Level semantics: what was not read is still there.
        threadWaitRead rt r
        byte r >>= (@?= 'b')
        atEnd <- forkTask (threadWaitRead rt r)
        waitParked (taskThread atEnd)
        retire w
        joinTask atEnd,
      bothBackends "writable when there is room" $ \rt -> withPipe $ \(r, w) -> do
        threadWaitWrite rt w
        stuff w
        waiter <- forkTask (threadWaitWrite rt w)
        waitParked (taskThread waiter)
        drain r
        joinTask waiter,
      bothBackends "writable ends with an error when nobody reads" $ \rt -> withPipe $ \(r, w) -> do
        stuff w
        waiter <- forkTask (threadWaitWrite rt w)
        waitParked (taskThread waiter)
        retire r
        joinTask waiter,
      bothBackends "each waiter has its own deadline" $ \rt -> withPipe $ \(r, w) -> do
        far <- late
        patient <- replicateM 3 (forkTask (threadWaitReadUntil rt r far))
        mapM_ (waitParked . taskThread) patient
        hasty <- replicateM 3 (forkTask (soon >>= threadWaitReadUntil rt r))
        mapM joinTask hasty >>= (@?= [False, False, False])
        _ <- fdWrite w "x"
        mapM joinTask patient >>= (@?= [True, True, True])
        stuff w
        near <- soon
        threadWaitWriteUntil rt w near >>= (@?= False),
      bothBackends "a cancelled waiter passes its turn on" $ \rt -> withPipe $ \(r, w) -> do
        waiters <- replicateM 6 (forkTask (threadWaitRead rt r))
        mapM_ (waitParked . taskThread) waiters
        mapM_ killTask (take 3 waiters)
        _ <- fdWrite w "x"
        mapM_ joinTask (drop 3 waiters),
      bothBackends "readers and writers of one descriptor do not disturb each other" $ \rt -> withUnixPair rt $ \_ _ -> withPipe $ \(r, w) -> do
        stuff w
        readers <- replicateM 2 (forkTask (threadWaitRead rt r))
        writer <- forkTask (threadWaitWrite rt w)
        mapM_ joinTask readers
        waitParked (taskThread writer)
        drain r
        joinTask writer,
      bothBackends "the registration goes with the last waiter" $ \rt -> withPipe $ \(r, w) -> do
        before <- runtimeLive rt
        waiters <- replicateM 3 (forkTask (threadWaitRead rt r))
        mapM_ (waitParked . taskThread) waiters
        -- They may have been seen parked on the lock that a slow one holds to register it.
        waitUntilTrue ((== before + 1) <$> runtimeLive rt)
        _ <- fdWrite w "x"
        mapM_ joinTask waiters
        runtimeLive rt >>= (@?= before)
        -- So the descriptor may be registered, or closed and reused.
        conn <- register rt r
        deregister conn >>= (@?= Just r),
      bothBackends "a disk file is always ready, a closed number an error" $ \rt -> do
        bracket (openDescriptor "/proc/self/exe" ReadOnly) closeFd $ \fd -> do
          threadWaitRead rt fd
          threadWaitWrite rt fd
        expectIOError EBADF (threadWaitRead rt 987654)
        expectIOError EBADF (threadWaitWriteUntil rt 987654 never),
      bothBackends "callbacks run until the subscription ends" $ \rt -> withPipe $ \(r, w) -> do
        heard <- newEmptyMVar
        key <- registerFd rt (\k e -> byte (keyFd k) >>= \c -> putMVar heard (c, e)) r evtRead
        keyFd key @?= r
        show key @?= "FdKey " ++ show r
        forM_ "hello" $ \c -> do
          _ <- fdWrite w [c]
          takeMVar heard >>= (@?= (c, evtRead))
        unregisterFd key
        unregisterFd key
        _ <- fdWrite w "x"
        near <- soon
        threadWaitReadUntil rt r near >>= (@?= True)
        byte r >>= (@?= 'x')
        tryTakeMVar heard >>= (@?= Nothing),
      bothBackends "subscriptions to one descriptor are independent" $ \rt -> withPipe $ \(r, w) -> do
        a <- newEmptyMVar
        b <- newEmptyMVar
        keyA <- registerFd rt (\k _ -> unregisterFd k >> putMVar a ()) r evtRead
        keyB <- registerFd rt (\k _ -> unregisterFd k >> putMVar b ()) r evtRead
        _ <- fdWrite w "x"
        takeMVar a
        takeMVar b
        unregisterFd keyA
        unregisterFd keyB,
      bothBackends "both events" $ \rt -> withUnixPair rt $ \_ _ -> withPipe $ \(r, w) -> do
        events <- newChan
        key <- registerFd rt (\k e -> unregisterFd k >> writeChan events e) w (evtRead <> evtWrite)
        readChan events >>= (@?= evtWrite)
        unregisterFd key
        _ <- fdWrite w "y"
        byte r >>= (@?= 'y'),
      testCase "events are a set" $ do
        show (evtRead <> evtWrite) @?= "[evtRead,evtWrite]"
        evtRead `eventIs` (evtRead <> evtWrite) @?= True
        evtRead `eventIs` evtWrite @?= False
        mempty `eventIs` evtRead @?= False
    ]
