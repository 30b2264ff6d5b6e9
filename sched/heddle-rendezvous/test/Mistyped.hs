{-# LANGUAGE DeriveGeneric #-}
{-# LANGUAGE FlexibleContexts #-}
{-# LANGUAGE FlexibleInstances #-}
{-# LANGUAGE MultiParamTypeClasses #-}
{-# LANGUAGE TypeFamilies #-}
{-# LANGUAGE TypeOperators #-}
{-# LANGUAGE UndecidableInstances #-}
{-# OPTIONS_GHC -fdefer-type-errors -fno-defer-typed-holes -fno-defer-out-of-scope-variables -Wno-deferred-type-errors -Wno-unused-matches -Wno-unused-local-binds #-}

-- | Programs that do not typecheck. The compiler is told to go on all the same; what it had
-- to say is thrown when the program runs. See "TypeTest" for the twins that do typecheck.
module Mistyped
  ( endOutsideItsBranch,
    parentsEndCaptured,
    parentsChannelCaptured,
    siblingsEnd,
    sendOnReadersEnd,
    recvOnWritersEnd,
    sendOnChannel,
    recvOnChannel,
    sendOnGrant,
    grantEndOfOther,
    writingOfReadersEnd,
    channelOutOfRun,
    channelOfOtherRun,
    worldOutOfRun,
    worldInPureRun,
    parentsWorldCaptured,
    effectWithoutWorld,
    ioInDet,
    wrongElement,
    wrongResult,
    closedWithEnd,
    closedWithChannel,
    branchesCoerced,
    grantOfOtherShape,
    grantOfNumber,
    grantOfFunction,
    grantOfChannel,
    grantOfNumbers,
    grantWithoutGeneric,
    givenWithoutGeneric,
    fieldThatIsNoGrant,
    grantOfOtherConstructors,
    grantOfFewerFields,
  )
where

import Control.Monad (void)
import Data.Coerce (coerce)
import GHC.Generics (Generic)
import Heddle.Prim.Exception (evaluate)
import Heddle.Rendezvous

{- HLINT ignore "Avoid lambda" -}
{- HLINT ignore "Avoid lambda using `infix`" -}
-- So that what the programs differ in stands out.

-- | The result mentions the branch's own type.
endOutsideItsBranch :: IO ()
endOutsideItsBranch = evaluate $
  runDet $ do
    c <- newChan "c"
    o <- par (branch (out c) (\o -> pure o))
    send o 'x'

parentsEndCaptured :: IO ()
parentsEndCaptured = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> par (branch () (\() -> send o 'x'))))

parentsChannelCaptured :: IO ()
parentsChannelCaptured = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch () (\() -> par (branch (out c) (\o -> send o 'x'))))

-- | An end made in one branch, used in another.
siblingsEnd :: IO ()
siblingsEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    i <- par (branch (inp c) (\i -> pure [i]) <* branch (out c) (\o -> send o 'x'))
    par (branch () (\() -> mapM_ recv i))

sendOnReadersEnd :: IO ()
sendOnReadersEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (inp c) (\i -> send i 'x'))

recvOnWritersEnd :: IO ()
recvOnWritersEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    void (par (branch (out c) (\o -> recv o >>= \x -> pure (x :: Char))))

sendOnChannel :: IO ()
sendOnChannel = evaluate $
  runDet $ do
    c <- newChan "c"
    send c 'x'

recvOnChannel :: IO ()
recvOnChannel = evaluate $
  runDet $ do
    c <- newChan "c"
    recv c >>= \x -> x `seq` pure ()

sendOnGrant :: IO ()
sendOnGrant = evaluate $
  runDet $ do
    c <- newChan "c"
    send (out c) 'x'

-- | A grant of an outer branch's.
grantEndOfOther :: IO ()
grantEndOfOther = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (out c) (\o -> par (branch () (\() -> par (branch o (\o' -> send o' 'x'))))))

-- | Who may read does not get the right to write.
writingOfReadersEnd :: IO ()
writingOfReadersEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (inp c) (\i -> par (branch (out i) (\o -> send o 'x'))))

channelOutOfRun :: IO ()
channelOutOfRun = evaluate (runDet (newChan "c") `seq` ())

channelOfOtherRun :: IO ()
channelOfOtherRun = evaluate $
  runDet $ do
    c <- newChan "c"
    pure $! runDet (par (branch (out c) (\o -> send o 'x')))

worldOutOfRun :: IO ()
worldOutOfRun = runDetIO pure >>= \w -> w `seq` pure ()

worldInPureRun :: IO ()
worldInPureRun = runDetIO (\w -> pure $! runDet (io w (pure ())))

parentsWorldCaptured :: IO ()
parentsWorldCaptured = runDetIO (\w -> par (branch () (\() -> io w (pure ()))))

effectWithoutWorld :: IO ()
effectWithoutWorld = evaluate $ runDet (io () (pure ()))

ioInDet :: IO ()
ioInDet = evaluate $
  runDet $ do
    pure ()
    putStr ""

wrongElement :: IO ()
wrongElement = evaluate $
  runDet $ do
    c <- newChan "c"
    void (par (branch (out c) (\o -> send o 'x') *> branch (inp c) (\i -> recv i >>= \x -> pure $! x + (1 :: Int))))

wrongResult :: IO ()
wrongResult = evaluate $
  runDet $ do
    (x, y) <- par ((,) <$> branch () (\() -> pure 'x') <*> branch () (\() -> pure True))
    if x then pure () else y `seq` pure ()

-- | What is cancelled must not be a member of a channel from outside.
closedWithEnd :: IO ()
closedWithEnd = evaluate $
  runDet $ do
    c <- newChan "c"
    void (par (branch (inp c) (\i -> leftmost [Closed (Just <$> recv i)]) <* branch (out c) (\o -> send o 'x')))

closedWithChannel :: IO ()
closedWithChannel = evaluate $
  runDet $ do
    c <- newChan "c"
    void (leftmost [Closed (Just <$> par (branch (out c) (\o -> send o 'x')))])

-- | A parent's branch, with what it was granted, as one of a branch's own.
branchesCoerced :: IO ()
branchesCoerced = evaluate $
  runDet $ do
    c <- newChan "c"
    let one = branch (out c) (\o -> send o 'x')
    par (branch () (\() -> par (coerce one)))

newtype Reader s = Reader (Reading s Char)
  deriving stock (Generic)

newtype Writer t = Writer (Out t Char)
  deriving stock (Generic)

-- | A writer's end for who was granted a reader's.
instance s ~ s' => Grant s (Reader s') where
  type Given t (Reader s') = Writer t

grantOfOtherShape :: IO ()
grantOfOtherShape = evaluate $
  runDet $ do
    c <- newChan "c"
    par (branch (Reader (inp c)) (\(Writer o) -> send o 'x'))

grantOfNumber :: IO ()
grantOfNumber = evaluate $ runDet (par (branch (1 :: Int) (\_ -> pure ())))

grantOfFunction :: IO ()
grantOfFunction = evaluate $ runDet (par (branch not (\_ -> pure ())))

grantOfChannel :: IO ()
grantOfChannel = evaluate $ runDet (newChan "c" >>= \c -> par (branch c (\_ -> pure ())))

grantOfNumbers :: IO ()
grantOfNumbers = evaluate $ runDet (par (branch (Just [1 :: Int, 2], ()) (\_ -> pure ())))

newtype Bare s = Bare (Reading s Char)

newtype Clad t = Clad (In t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Bare s') where
  type Given t (Bare s') = Clad t

grantWithoutGeneric :: IO ()
grantWithoutGeneric = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Bare (inp c)) (\_ -> pure ())))

newtype Console s = Console (World s)
  deriving stock (Generic)

-- | The world itself for a type with the world in it.
instance s ~ s' => Grant s (Console s') where
  type Given t (Console s') = World t

givenWithoutGeneric :: IO ()
givenWithoutGeneric = runDetIO (\w -> par (branch (Console w) (\_ -> pure ())))

data Numbered s = Numbered Int (Reading s Char)
  deriving stock (Generic)

data NumberedEnd t = NumberedEnd Int (In t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Numbered s') where
  type Given t (Numbered s') = NumberedEnd t

fieldThatIsNoGrant :: IO ()
fieldThatIsNoGrant = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Numbered 1 (inp c)) (\_ -> pure ())))

data Either' s = Reads (Reading s Char) | Writes (Writing s Char)
  deriving stock (Generic)

data Both t = Both (In t Char) (Out t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Either' s') where
  type Given t (Either' s') = Both t

grantOfOtherConstructors :: IO ()
grantOfOtherConstructors = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Reads (inp c)) (\_ -> pure ())))

data Two s = Two (Reading s Char) (Reading s Char)
  deriving stock (Generic)

newtype One t = One (In t Char)
  deriving stock (Generic)

instance s ~ s' => Grant s (Two s') where
  type Given t (Two s') = One t

grantOfFewerFields :: IO ()
grantOfFewerFields = evaluate $ runDet (newChan "c" >>= \c -> par (branch (Two (inp c) (inp c)) (\_ -> pure ())))
